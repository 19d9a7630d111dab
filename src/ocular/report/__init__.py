"""Reports on one self-contained page: pictures are part of the file, nothing is loaded from anywhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ocular import plots
from ocular.advisor import Advisor, Recommendation
from ocular.data.interactions import plain
from ocular.errors import DataError
from ocular.explain.coclusters import CoCluster
from ocular.explain.names import client_name, one_line, product_name
from ocular.explain.price import money
from ocular.model import OCuLaR
from ocular.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_MEMBERS = 6  # named for each co-cluster
DPI = 144  # sharp on screens with many pixels too
MOST_COCLUSTERS = 100  # shown, those that explain most purchases


def client_report(
    advisor: Advisor, client: Any, recommendations: Sequence[Recommendation], *, show_clients: bool = True
) -> str:
    """What a client has, what is recommended to them and why, with the evidence as a picture."""
    history = advisor.model.interactions_
    user = history.user_index(client)
    if any(recommendation.explanation.user != user for recommendation in recommendations):
        raise DataError(f"expected recommendations to {client!r}, got some to others")
    attributes = {name: plain(values[user]) for name, values in history.user_attributes.items()}
    return _render(
        "client.html",
        title=client_name(plain(history.user_labels[user])),
        attributes={name: value for name, value in attributes.items() if str(value) not in ("None", "nan")},
        owned=[product_name(plain(history.item_labels[i])) for i in history.by_user[user]],
        recommendations=recommendations,
        name=product_name,
        recommended=all(each.explanation.reasons and not each.explanation.owned for each in recommendations),
        rationale=lambda explanation: Markup(explanation.to_html(show_clients=show_clients)),  # noqa: S704  escaped there
        evidence=lambda explanation: _picture(
            lambda theme: plots.plot_evidence(explanation, theme=theme, show_clients=show_clients),
            f"Who bought {product_name(explanation.product)} among the clients with the same purchases",
        ),
    )


def model_report(model: OCuLaR, coclusters: Sequence[CoCluster], *, show_clients: bool = True) -> str:
    """What a model found: its co-clusters with labels, sizes, members and overlaps, and what confidences are worth."""
    history, calibration = model.interactions_, model.calibration_
    ordered = sorted(coclusters, key=lambda cocluster: -cocluster.share)
    reliability = None
    if calibration is not None:
        reliability = _picture(
            lambda theme: plots.plot_reliability(calibration.means, calibration.rates, calibration.counts, theme=theme),
            "Hit rate against confidence",
        )
    return _render(
        "model.html",
        title="Co-clusters",
        model=model,
        history=history,
        coclusters=ordered[:MOST_COCLUSTERS],
        total=len(ordered),
        per_client=sum(len(c.users) for c in ordered) / history.n_users,
        per_product=sum(len(c.items) for c in ordered) / history.n_items,
        typical_products=lambda c: [product_name(plain(history.item_labels[i])) for i in c.items[:MOST_MEMBERS]],
        typical_clients=lambda c: [client_name(plain(history.user_labels[u])) for u in c.users[:MOST_MEMBERS]],
        show_clients=show_clients,
        matrix=_picture(
            lambda theme: plots.plot_matrix(model, coclusters=ordered, theme=theme, show_clients=show_clients),
            "Clients × products with co-clusters",
        ),
        sizes=_picture(lambda theme: plots.plot_coclusters(ordered, theme=theme), "Sizes and densities"),
        reliability=reliability,
    )


def _picture(draw: Callable[[str], Figure], description: str) -> Markup:
    """A light and a dark drawing, of which the browser shows the one that fits."""
    light, dark = (plots.png(draw(theme), DPI) for theme in ("light", "dark"))
    width = int.from_bytes(light[16:20]) * 96 // DPI  # from the header; a browser has 96 pixels to the inch
    return Markup(
        '<div class="scroll"><picture><source media="(prefers-color-scheme: dark)" srcset="{}">'
        '<img src="{}" width="{}" alt="{}"></picture></div>'
    ).format(_address(dark), _address(light), width, one_line(description))


def _address(image: bytes) -> str:
    return f"data:image/png;base64,{b64encode(image).decode()}"


def _render(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(version=__version__, **values)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("ocular.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["money"] = money
    return environment
