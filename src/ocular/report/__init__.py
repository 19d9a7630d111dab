"""Reports as one self-contained HTML page: pictures are part of the file, nothing is loaded from anywhere."""

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
from ocular.plots.drawing import shown_width
from ocular.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_MEMBERS = 6  # named for each co-cluster
MAX_COCLUSTERS = 100  # shown, those that explain most purchases


def client_report(
    advisor: Advisor, client: Any, recommendations: Sequence[Recommendation], *, show_clients: bool = True
) -> str:
    """Return the page on a client: their purchases, the recommendations, and why, with the evidence as a picture."""
    data = advisor.model.interactions_
    user = data.user_index(client)
    if any(recommendation.explanation.user != user for recommendation in recommendations):
        raise DataError(f"expected recommendations to {client!r}, got some to others")
    attributes = {name: plain(values[user]) for name, values in data.user_attributes.items()}
    return _render(
        "client.html",
        title=client_name(data.user_name(user)),
        attributes={name: value for name, value in attributes.items() if str(value) not in ("None", "nan")},
        owned=[product_name(data.item_name(i)) for i in data.by_user[user]],
        recommendations=recommendations,
        name=lambda explanation: product_name(explanation.product),
        recommended=all(each.explanation.reasons and not each.explanation.owned for each in recommendations),
        rationale=lambda explanation: Markup(explanation.to_html(show_clients=show_clients)),  # noqa: S704  escaped there
        evidence=lambda explanation: _picture(
            lambda theme: plots.plot_evidence(explanation, theme=theme, show_clients=show_clients),
            f"Who bought {product_name(explanation.product)} among the clients with the same purchases",
        ),
    )


def model_report(model: OCuLaR, coclusters: Sequence[CoCluster], *, show_clients: bool = True) -> str:
    """Return the page on a model: its co-clusters with labels, sizes, members and overlaps, and its calibration."""
    data = model.interactions_
    ordered = sorted(coclusters, key=lambda cocluster: -cocluster.share)
    reliability = None
    if model.calibration_ is not None:
        reliability = _picture(lambda theme: plots.plot_reliability(model, theme=theme), "Hit rate by model score")
    return _render(
        "model.html",
        title="Co-clusters",
        model=model,
        data=data,
        coclusters=ordered[:MAX_COCLUSTERS],
        total=len(ordered),
        per_client=sum(len(c.users) for c in ordered) / data.n_users,
        per_product=sum(len(c.items) for c in ordered) / data.n_items,
        typical_products=lambda c: [product_name(data.item_name(i)) for i in c.items[:MAX_MEMBERS]],
        typical_clients=lambda c: [client_name(data.user_name(u)) for u in c.users[:MAX_MEMBERS]],
        show_clients=show_clients,
        matrix=_picture(
            lambda theme: plots.plot_matrix(model, coclusters=ordered, theme=theme, show_clients=show_clients),
            "Clients × products with co-clusters",
        ),
        sizes=_picture(
            lambda theme: plots.plot_coclusters(model, coclusters=ordered, theme=theme), "Sizes and densities"
        ),
        reliability=reliability,
    )


def _picture(draw: Callable[[str], Figure], description: str) -> Markup:
    """Return a light and a dark drawing, of which the browser shows the one that fits."""
    light, dark = (plots.png(draw(theme)) for theme in ("light", "dark"))
    return Markup(
        '<div class="scroll"><picture><source media="(prefers-color-scheme: dark)" srcset="{}">'
        '<img src="{}" width="{}" alt="{}"></picture></div>'
    ).format(_data_url(dark), _data_url(light), shown_width(light), one_line(description))


def _data_url(image: bytes) -> str:
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
