"""Pictures of a model and its recommendations, as matplotlib figures that no global state touches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.data.interactions import Interactions
from ocular.errors import ConfigError
from ocular.explain.names import client_name, product_name
from ocular.explain.reasons import Explanation
from ocular.plots.charts import NONE, plot_coclusters, plot_reliability, plot_search
from ocular.plots.drawing import (
    LINES,
    Theme,
    draw_squares,
    grid,
    mix,
    readable_on,
    rendered,
    sentence,
    short_name,
    style_colorbar,
    theme_named,
    write_below,
)
from ocular.plots.ordering import Arrangement, Group, arrange
from ocular.storage import write_file
from ocular.validation import check_whole

# isort: split
# after drawing.py, which says what to install where matplotlib is missing
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

__all__ = [
    "check_picture_name",
    "plot_coclusters",
    "plot_evidence",
    "plot_matrix",
    "plot_probabilities",
    "plot_reliability",
    "plot_search",
    "png",
    "save_figure",
]

Pairs = Iterable[tuple[int, int]]
Lists = list[list[int]]  # ids, a list for each reason
READABLE = 200  # rows or columns of any picture
WRITTEN = 20  # rows and columns of a table of probabilities, unless others are asked for


class Fitted(Protocol):
    """What a picture needs of a model."""

    @property
    def interactions_(self) -> Interactions: ...
    def coclusters(self) -> Sequence[Group]: ...
    def predict_proba(self, users: NDArray[Any], items: NDArray[Any], /) -> NDArray[np.float64]: ...
    def recommend(self, userid: NDArray[Any], /, *, N: int) -> tuple[NDArray[Any], NDArray[Any]]: ...


def plot_matrix(
    model: Fitted,
    *,
    coclusters: Sequence[Group] | None = None,
    theme: str = "light",
    most: int = 60,
    recommended: Pairs | None = None,
    show_clients: bool = True,
) -> Figure:
    """Who bought what, ordered so that co-clusters are blocks; what to sell next are the white squares in them."""
    colors, data = theme_named(theme), model.interactions_
    all_groups = model.coclusters() if coclusters is None else coclusters
    shown = arrange(all_groups, data.shape, _count(most, "most"))
    if not len(shown.users) or not len(shown.items):
        return sentence(NONE, colors)
    rows, columns = [*map(short_name, data.user_labels[shown.users])], [*map(short_name, data.item_labels[shown.items])]
    if not show_clients:
        rows = [f"client {_letters(n)}" for n in range(len(rows))]
    figure, axes = grid(rows, columns, colors, "Co-clusters of clients (rows) and products (columns)")
    bought = _bought(data, shown)
    pairs = _next_purchases(model, shown) if recommended is None else list(recommended)
    row, column = ({int(i): at for at, i in enumerate(ids)} for ids in (shown.users, shown.items))
    wanted = [(row[u], column[i]) for u, i in pairs if u in row and i in column]
    draw_squares(axes, np.argwhere(bought), colors.bought, "bought")
    handles: list[Any] = [Patch(color=colors.bought, label="bought")]
    for number, group in enumerate(shown.coclusters):
        handles.append(_draw_cocluster(axes, group, shown, number, colors))
    thick = 2.6 if max(bought.shape) < 25 else 1.8
    draw_squares(axes, wanted, "#ffffff", "recommended", edgecolor=colors.accent, linewidth=thick, zorder=6)
    handles.insert(1, Patch(fc="#ffffff", ec=colors.accent, lw=2.5, label="recommended"))
    write_below(axes, _sampled(shown, data, len(all_groups)), handles, colors, ncols=1 if len(columns) < 30 else 2)
    return figure


def plot_probabilities(
    model: Fitted, *, users: ArrayLike | None = None, items: ArrayLike | None = None, theme: str = "light"
) -> Figure:
    """The probability of every shown pair, written in its square: grey where bought, the deeper the more probable."""
    colors, data, all_groups = theme_named(theme), model.interactions_, model.coclusters()
    shown = arrange(all_groups, data.shape, WRITTEN)
    note = _sampled(shown, data, len(all_groups), outlined=False) if users is None and items is None else ""
    shown = replace(shown, users=_given(users, "users", shown.users), items=_given(items, "items", shown.items))
    if not len(shown.users) or not len(shown.items):
        return sentence(NONE, colors)
    probabilities = np.asarray(model.predict_proba(shown.users[:, None], shown.items))
    rows, columns = [*map(short_name, data.user_labels[shown.users])], [*map(short_name, data.item_labels[shown.items])]
    figure, axes = grid(rows, columns, colors, "Probability that a client (row) buys a product (column)", cell=0.44)
    bought = _bought(data, shown)
    scale = LinearSegmentedColormap.from_list("unknown", [colors.cell, colors.palette[0]])
    grey = mix(colors.bought, colors.paper, 0.45)
    draw_squares(axes, np.argwhere(bought), grey, "bought")
    unknown = draw_squares(axes, np.argwhere(~bought), None, "unknown", array=probabilities[~bought], cmap=scale)
    unknown.set_clim(0, 1)
    for (r, c), p in np.ndenumerate(probabilities):
        color = readable_on(grey if bought[r, c] else scale(float(p))) if p >= 0.005 else colors.muted
        axes.text(c, r, f"{p:.2f}", ha="center", va="center", fontsize=8.5, color=color, zorder=5)
    high = min(1.0, 6 / len(rows))
    bar = figure.colorbar(unknown, cax=axes.inset_axes((1 + 0.5 / len(columns), 1 - high, 0.5 / len(columns), high)))
    style_colorbar(bar, "probability where not bought", colors)
    write_below(axes, note, [Patch(color=grey, label="bought")], colors)
    return figure


def plot_evidence(
    explanation: Explanation,
    *,
    theme: str = "light",
    most_clients: int = 8,
    most_items: int = 12,
    show_clients: bool = True,
) -> Figure:
    """What speaks for one recommendation: similar clients, what they share with the client, and that they bought it."""
    colors, data = theme_named(theme), explanation.interactions
    client = short_name(client_name(explanation.client), 40)
    item_name = short_name(product_name(explanation.product), 40)
    summary = explanation.summary()
    verb = "bought by" if explanation.owned else "recommended to" if summary.shown_reasons else "for"
    title = f"{item_name}\n{verb} {client} · confidence {explanation.confidence:.2f}"
    if not summary.shown_reasons:
        return sentence(f"{title}\nThe model has no co-cluster to name as the reason.", colors)
    items = _shares([reason.owned_items for reason in summary.shown_reasons], _count(most_items, "most_items"))
    clients = _shares([reason.similar_users for reason in summary.shown_reasons], _count(most_clients, "most_clients"))
    shown = [user for group in clients for user in group]
    rows = [short_name(data.user_labels[u]) if show_clients else f"client {_letters(n)}" for n, u in enumerate(shown)]
    columns = [short_name(data.item_labels[i]) for group in items for i in group]
    names = short_name(explanation.client), short_name(explanation.product)
    figure, axes = grid([*rows, names[0]], [*columns, names[1]], colors, title, cell=0.34)
    for number, cells in enumerate(_evidence(explanation, items, clients)):
        draw_squares(axes, cells, colors.palette[number], f"reason {number + 1}")
    fill = colors.palette[0] if explanation.owned else "#ffffff"
    corner = [(len(rows), len(columns))]
    draw_squares(axes, corner, fill, "recommended", edgecolor=colors.accent, linewidth=3, zorder=6)
    axes.axhspan(len(rows) - 0.5, len(rows) + 0.5, color=colors.accent, alpha=0.12, lw=0, zorder=0.5)
    for label in (axes.get_yticklabels()[-1], axes.get_xticklabels()[-1]):
        label.set(fontweight="bold", color=colors.accent)
    parts = [100 * reason.contribution / summary.affinity for reason in summary.shown_reasons]
    _brackets(axes, [len(ids) for ids in items], [len(ids) for ids in clients], [f"{p:.0f} %" for p in parts], colors)
    rest = round(100 - sum(parts))
    note = "\n\nfilled: has the product" + (f"; {rest} % of the case is not shown" if rest else "")
    write_below(axes, note, [Patch(fc=fill, ec=colors.accent, lw=2.5, label=verb.partition(" ")[0])], colors)
    return figure


def png(figure: Figure, dpi: int = 144) -> bytes:
    """The picture as a PNG file."""
    return rendered(figure, "png", dpi)


def check_picture_name(path: str | Path) -> Path:
    """Better before a long computation than after it."""
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"expected a file name that ends in .png, .svg or .pdf, got {path.name!r}")
    return path


def save_figure(path: str | Path, figure: Figure) -> None:
    """Write the picture as .png, .svg or .pdf, by the name of the file."""
    path = check_picture_name(path)
    content = rendered(figure, path.suffix.lower()[1:], 144)
    write_file(path, lambda file: file.write(content))


def _bought(data: Interactions, shown: Arrangement) -> NDArray[np.bool_]:
    rows = data.by_user.take(shown.users).matrix(data.n_items)
    bought: NDArray[np.bool_] = rows[:, shown.items].toarray() > 0
    return bought


def _next_purchases(model: Fitted, shown: Arrangement) -> list[tuple[int, int]]:
    """The most probable product of each shown client, where a shown co-cluster is a reason for it."""
    best = model.recommend(shown.users, N=1)[0][:, 0]
    reasons = [(set(group.users.tolist()), set(group.items.tolist())) for group in shown.coclusters]
    pairs = zip(shown.users.tolist(), best.tolist(), strict=True)
    return [(u, i) for u, i in pairs if any(u in users and i in items for users, items in reasons)]


def _sampled(shown: Arrangement, data: Interactions, n_coclusters: int, outlined: bool = True) -> str:
    """One line that says what is left out; empty if nothing is."""
    sides = [(len(shown.users), data.n_users, "clients"), (len(shown.items), data.n_items, "products")]
    told = " and ".join(f"{n:,} of {all_:,} {side}" if n < all_ else f"all {n:,} {side}" for n, all_, side in sides)
    k = len(shown.coclusters)
    few = k < n_coclusters
    groups = f"the {'clearest ' * few}co-cluster" if k == 1 else f"the {k} {'clearest ' * few}co-clusters"
    if few:
        groups += f" (of {n_coclusters:,})"
    if any(n < all_ for n, all_, _ in sides):
        return f"{told}: the strongest members of {groups}"
    return f"Outlined: {groups}" if outlined and k < n_coclusters else ""


def _evidence(explanation: Explanation, items: Lists, clients: Lists) -> list[list[tuple[int, int]]]:
    """The filled squares of each reason: who has its items, the client last, and that its clients have the product."""
    column, last_column = 0, sum(map(len, items))
    rows = [set(explanation.interactions.by_user[user].tolist()) for group in clients for user in group]
    rows.append(set(explanation.client_items.tolist()))
    row, filled = 0, []
    for owned, similar in zip(items, clients, strict=True):
        cells = [(r, column + c) for r, has in enumerate(rows) for c, item in enumerate(owned) if item in has]
        mine = range(row, row + len(similar))
        filled.append(cells + [(r, last_column) for r in mine if explanation.item in rows[r]])
        row, column = row + len(similar), column + len(owned)
    return filled


def _shares(groups: Lists, most: int) -> Lists:
    """The first of each list, together at most `most` (but one a list), each once unless a list had none of its own."""
    seen: set[int] = set()
    shares: Lists = []
    for left, ids in zip(range(len(groups), 0, -1), groups, strict=True):
        fresh = [i for i in ids if i not in seen] or ids
        room = most - sum(map(len, shares))
        shares.append(fresh[: max(1, -(-room // left))])
        seen.update(shares[-1])
    return shares


def _draw_cocluster(axes: Axes, group: Group, shown: Arrangement, number: int, colors: Theme) -> Patch:
    """A tint and an outline around every run of neighbouring members; returns the entry for the legend."""
    color, line = colors.palette[number % len(colors.palette)], LINES[number % len(LINES)]
    inset = 0.06 * (number % 3) - 0.06  # edges that coincide stay apart
    for top, bottom in _runs(np.isin(shown.users, group.users)):
        for left, right in _runs(np.isin(shown.items, group.items)):
            at, width, height = (left - 0.5 + inset, top - 0.5 + inset), right - left - 2 * inset, bottom - top
            box: dict[str, Any] = {"xy": at, "width": width, "height": height - 2 * inset}
            axes.add_patch(Rectangle(**box, fc=color, alpha=colors.tint, lw=0, zorder=1, clip_on=False))
            gid = f"co-cluster {group.index}"
            axes.add_patch(Rectangle(**box, fill=False, ec=color, ls=line, lw=1.8, gid=gid, zorder=4, clip_on=False))
    tinted = mix(color, colors.paper, colors.tint)
    return Patch(fc=tinted, ec=color, ls=line, lw=1.8, label=f"{group.index} · {short_name(group.label, 44)}")


def _runs(held: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(n, 2) begin and end of every run of True."""
    return np.flatnonzero(np.diff(np.concatenate([[0], held, [0]]))).reshape(-1, 2)


def _brackets(axes: Axes, columns: list[int], rows: list[int], shares: list[str], colors: Theme) -> None:
    """Below the columns of each reason its share of the case, beside the rows its number."""
    bar: dict[str, Any] = {"lw": 4, "solid_capstyle": "butt", "clip_on": False}
    text: dict[str, Any] = {"fontsize": 8.5, "color": colors.ink}
    right, bottom = sum(columns) + 0.65, sum(rows) + 0.75
    for number, share in enumerate(shares):
        last_column, last_row = sum(columns[: number + 1]), sum(rows[: number + 1])
        color, wide = colors.palette[number], columns[number]
        left, top = last_column - wide, last_row - rows[number]
        axes.plot([left - 0.44, last_column - 0.56], [bottom] * 2, color=color, **bar)
        axes.plot([right] * 2, [top - 0.44, last_row - 0.56], color=color, **bar)
        header = f"reason {number + 1} · {share}" if wide > 2 else f"{'reason ' * (wide > 1)}{number + 1}\n{share}"
        axes.text((left + last_column - 1) / 2, bottom + 0.2, header, ha="center", va="top", **text)
        axes.text(right + 0.25, (top + last_row - 1) / 2, f"reason {number + 1}", va="center", **text)


def _letters(number: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    first = _letters(number // 26 - 1) if number >= 26 else ""
    return first + ascii_uppercase[number % 26]


def _given(ids: ArrayLike | None, name: str, otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
    if ids is None:
        return otherwise
    asked = np.atleast_1d(np.asarray(ids, np.int64))
    _count(len(asked), f"the number of {name}")
    return asked


def _count(value: int, name: str) -> int:
    return check_whole(value, name, 1, READABLE)
