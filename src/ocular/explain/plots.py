"""Pictures of a model and its recommendations, as matplotlib figures that no global state touches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.data.interactions import Interactions
from ocular.errors import ConfigError
from ocular.explain.drawing import (
    PLAIN,
    THOUSANDS,
    Theme,
    draw_squares,
    grid,
    log_axis,
    mix,
    new_figure,
    readable_on,
    rendered,
    sentence,
    set_title,
    short_name,
    style_axes,
    style_colorbar,
    theme_named,
    write_below,
)
from ocular.explain.names import client_name, product_name
from ocular.explain.ordering import Arrangement, Group, arrange
from ocular.explain.reasons import Explanation
from ocular.storage import write_file

# isort: split
# after drawing.py, which says what to install where matplotlib is missing
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import NullLocator, PercentFormatter
from matplotlib.transforms import Bbox

Pairs = Iterable[tuple[int, int]]
Lists = list[list[int]]  # ids, a list for each reason
Bins = tuple[ArrayLike, ArrayLike, ArrayLike]  # predicted, observed, counts
LINES: list[Any] = ["-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5))]
NONE = "The model has no co-clusters to show."
READABLE = 200  # rows or columns of any picture
VALUES = 12  # rows and columns of a heat map with numbers in it
WRITTEN = 20  # rows and columns of a table of probabilities, unless others are asked for


class Fitted(Protocol):
    """What a picture needs of a model."""

    @property
    def interactions_(self) -> Interactions: ...
    def coclusters(self) -> Sequence[Group]: ...
    def predict_proba(self, users: NDArray[Any], items: NDArray[Any], /) -> NDArray[np.float64]: ...
    def recommend(self, userid: NDArray[Any], /, *, N: int) -> tuple[NDArray[Any], NDArray[Any]]: ...


class Setting(Protocol):
    """A point of a search."""

    @property
    def n_coclusters(self) -> int: ...
    @property
    def regularization(self) -> float: ...
    @property
    def relative(self) -> bool: ...
    @property
    def bias(self) -> bool: ...


class Measured(Protocol):
    """What a point scored."""

    @property
    def point(self) -> Setting: ...
    @property
    def mean(self) -> float: ...
    @property
    def folds(self) -> int: ...


class Searched(Protocol):
    """The result of `ocular.evaluation.search`."""

    @property
    def metric(self) -> str: ...
    @property
    def M(self) -> int: ...  # noqa: N802  the paper's symbol
    @property
    def rows(self) -> Sequence[Measured]: ...
    @property
    def best(self) -> Measured: ...
    @property
    def interpretable(self) -> Measured: ...


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
    case = explanation.case()
    verb = "bought by" if explanation.owned else "recommended to" if case.told else "for"
    title = f"{item_name}\n{verb} {client} · confidence {explanation.confidence:.2f}"
    if not case.told:
        return sentence(f"{title}\nThe model has no co-cluster to name as the reason.", colors)
    items = _shares([reason.owned_items for reason in case.told], _count(most_items, "most_items"))
    clients = _shares([reason.similar_users for reason in case.told], _count(most_clients, "most_clients"))
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
    parts = [100 * reason.contribution / case.affinity for reason in case.told]
    _brackets(axes, [len(ids) for ids in items], [len(ids) for ids in clients], [f"{p:.0f} %" for p in parts], colors)
    rest = round(100 - sum(parts))
    note = "\n\nfilled: has the product" + (f"; {rest} % of the case is not shown" if rest else "")
    write_below(axes, note, [Patch(fc=fill, ec=colors.accent, lw=2.5, label=verb.partition(" ")[0])], colors)
    return figure


def plot_coclusters(coclusters: Sequence[Group], *, theme: str = "light") -> Figure:
    """Every co-cluster by clients and products; its colour is how much of it is bought, its area what it explains."""
    colors = theme_named(theme)
    if not coclusters:
        return sentence(NONE, colors)
    figure, axes = new_figure((8.5, 6.0), colors)
    groups = sorted(coclusters, key=lambda group: -group.share)  # small ones are drawn on top
    x, y = (np.array([len(getattr(group, side)) for group in groups]) for side in ("users", "items"))
    share = np.array([group.share for group in groups])
    crowd = 700 / (1 + len(groups) / 600)  # many markers must be small ones
    area = np.maximum(crowd * share / max(share.max(), 1e-12), 8)
    density = np.array([group.density for group in groups])
    dots = axes.scatter(
        x, y, s=area, c=density, cmap="viridis", vmin=0, vmax=max(density.max(), 1e-12), alpha=0.85,
        edgecolors=colors.ink, linewidths=0.6 if len(groups) < 300 else 0.2, zorder=3,
    )  # fmt: skip
    log_axis(axes, "x", x)
    log_axis(axes, "y", y)
    style_axes(axes, colors)
    axes.set_xlabel(f"clients in the co-cluster\narea: share of purchases explained, up to {100 * share.max():.1f} %")
    axes.set_ylabel("products in the co-cluster")
    set_title(axes, f"{len(groups):,} co-clusters: size, density and what they explain", colors)
    bar = figure.colorbar(dots, ax=axes, aspect=30, pad=0.02, format=PercentFormatter(1.0, decimals=0))
    style_colorbar(bar, "density: share of its client–product pairs that are bought", colors)
    _name_dots(figure, axes, groups, np.column_stack([x, y]), np.sqrt(area) / 2, colors)
    return figure


def plot_reliability(
    predicted: ArrayLike, observed: ArrayLike, counts: ArrayLike, *, before: Bins | None = None, theme: str = "light"
) -> Figure:
    """How often what was said with some confidence came true, one marker a bin; on the diagonal words are kept."""
    colors = theme_named(theme)
    series = [("calibrated" if before else "confidence", _bins(predicted, observed, counts), colors.palette[0], "o")]
    if before is not None:
        series.insert(0, ("before", _bins(*before), colors.palette[1], "D"))
    figure = Figure(figsize=(6.4, 7.4), layout="constrained", facecolor=colors.paper)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.4, 1))
    upper.plot([0, 1], [0, 1], color=colors.muted, lw=1.2, ls=(0, (4, 3)), label="as confident as right", zorder=2)
    width = 0.018
    for number, (name, (x, y, n), color, marker) in enumerate(series):
        upper.plot(x, y, color=color, lw=1.4, zorder=3)
        area = 25 + 220 * n / n.max()
        upper.scatter(x, y, s=area, color=color, marker=marker, edgecolors=colors.paper, linewidths=0.8, zorder=4)
        wrong = float((n * np.abs(y - x)).sum() / n.sum())
        label = f"{name} · expected calibration error {wrong:.3f}"
        upper.add_line(Line2D([], [], color=color, marker=marker, ms=8, label=label))
        shift = (number - (len(series) - 1) / 2) * width
        lower.bar(x + shift, n, width=width, color=color, zorder=3)
    smallest, largest = (pick(pick(bins[2]) for _, bins, _, _ in series) for pick in (min, max))
    if largest > 50 * smallest:
        lower.set_yscale("log")
        lower.yaxis.set_minor_locator(NullLocator())
        lower.set_ylim(smallest / 2)
    lower.yaxis.set_major_formatter(THOUSANDS)
    upper.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="observed hit rate")
    lower.set(xlabel="confidence", ylabel="recommendations")
    for axes in (upper, lower):
        style_axes(axes, colors)
    set_title(upper, "Reliability of the confidence", colors, pad=20 + 15 * len(series))
    upper.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), frameon=False, labelcolor=colors.ink, fontsize=9)
    return figure


def plot_search(result: Searched, *, theme: str = "light") -> Figure:
    """Heat maps of co-clusters × regularization, one for each variant; the best and the interpretable are outlined."""
    colors, what = theme_named(theme), f"{result.metric}@{result.M}"
    chosen = [(result.interpretable, LINES[2], "fewest co-clusters within one standard error")]
    chosen.append((result.best, LINES[0], "best"))
    if result.best.point == result.interpretable.point:
        chosen = [(result.best, LINES[0], "best and interpretable")]
    variants = sorted({(row.point.relative, row.point.bias) for row in result.rows})
    sides = [sorted({getattr(row.point, name) for row in result.rows}) for name in ("n_coclusters", "regularization")]
    written = max(map(len, sides)) <= VALUES
    cell = 0.58 if written else 0.26
    height, width = (cell * len(side) for side in sides)
    size = max(max(width + 0.8, 2.6) * len(variants) + 1.4, 4.0), max(height, 1.2) + 1.9
    figure = Figure(figsize=size, layout="constrained", facecolor=colors.paper)
    panels = figure.subplots(1, len(variants), squeeze=False)[0]
    low, high = (pick(row.mean for row in result.rows) for pick in (min, max))
    for axes, variant in zip(panels, variants, strict=True):
        rows = [row for row in result.rows if (row.point.relative, row.point.bias) == variant]
        image = _draw_means(axes, rows, sides, (low, max(high, low + 1e-9)), result.best.folds if written else None)
        for row, line, _ in chosen:
            if any(row.point == other.point for other in rows):
                x, y = _square(row.point, sides)
                halo = [withStroke(linewidth=5 if written else 3.5, foreground="#ffffff")]
                style: dict[str, Any] = {"ls": line, "lw": 2.6 if written else 1.8, "path_effects": halo, "zorder": 4}
                axes.add_patch(Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, fill=False, ec=colors.accent, **style))
        _name_sides(axes, sides, colors)
        axes.set_title(f"{'R-' * variant[0]}OCuLaR{' with biases' * variant[1]}", fontsize=10, color=colors.ink)
    panels[0].set_ylabel("co-clusters K", color=colors.ink, fontsize=10)
    style_colorbar(figure.colorbar(image, ax=list(panels), pad=0.02), what, colors)
    title = f"{what} of {len(result.rows):,} settings"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=colors.ink)
    handles = [Patch(fill=False, ec=colors.accent, ls=line, lw=2, label=name) for _, line, name in chosen[::-1]]
    if written and any(row.folds < result.best.folds for row in result.rows):
        handles.append(Patch(fill=False, lw=0, label="(…) measured on fewer folds"))
    figure.legend(handles=handles, loc="outside lower left", frameon=False, labelcolor=colors.ink, fontsize=9)
    return figure


def _square(point: Setting, sides: list[list[Any]]) -> tuple[int, int]:
    return sides[1].index(point.regularization), sides[0].index(point.n_coclusters)


def _draw_means(
    axes: Axes, rows: list[Measured], sides: list[list[Any]], limits: tuple[float, float], folds: int | None
) -> Any:
    """The squares that were measured, with their means written in them where `folds` says what is a whole one."""
    table = np.full([len(side) for side in sides], np.nan)
    for row in rows:
        table[_square(row.point, sides)[::-1]] = row.mean
    image = axes.imshow(table, cmap="viridis", origin="lower", aspect="equal", vmin=limits[0], vmax=limits[1])
    for row in rows if folds is not None else []:
        text = f"{row.mean:.3f}".removeprefix("0")
        color = readable_on(image.cmap((row.mean - limits[0]) / (limits[1] - limits[0])))
        told = text if row.folds == folds else f"({text})"
        axes.text(*_square(row.point, sides), told, ha="center", va="center", fontsize=8.5, color=color, zorder=3)
    return image


def _name_sides(axes: Axes, sides: list[list[Any]], colors: Theme) -> None:
    """The values of K and λ at the squares."""
    names = [[f"{value:g}" for value in side] for side in sides]
    turned = len(names[1]) > VALUES or max(map(len, names[1])) > 5
    text: dict[str, Any] = {"fontsize": 9 if len(names[1]) <= VALUES else 7.5, "color": colors.ink}
    axes.set_yticks(range(len(names[0])), names[0], **text)
    axes.set_xticks(range(len(names[1])), names[1], rotation=90 if turned else 0, **text)
    axes.tick_params(length=0)
    axes.set_facecolor(colors.cell)  # of what was not measured
    axes.spines[:].set_visible(False)
    axes.set_xlabel("regularization λ", color=colors.ink, fontsize=10)


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


def _bins(predicted: ArrayLike, observed: ArrayLike, counts: ArrayLike) -> list[NDArray[np.float64]]:
    values = [np.asarray(v, np.float64).ravel() for v in (predicted, observed, counts)]
    if len({len(v) for v in values}) > 1 or not (values[2] > 0).any():
        sizes = ", ".join(str(len(v)) for v in values)
        raise ConfigError(f"expected predicted, observed and counts of the same bins, some not empty, got {sizes}")
    return [v[values[2] > 0] for v in values]


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


def _name_dots(
    figure: Figure, axes: Axes, groups: Sequence[Group], at: NDArray[Any], radius: NDArray[Any], colors: Theme
) -> None:
    """Name those that explain most, where there is room for the name beside the marker."""
    figure.draw_without_rendering()
    style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "zorder": 6, **PLAIN}
    style |= {"color": colors.ink, "path_effects": [withStroke(linewidth=2.5, foreground=colors.paper)]}
    line = {"arrowstyle": "-", "color": colors.muted, "lw": 0.8, "shrinkA": 0}
    frame, pixels = axes.get_window_extent(), figure.dpi / 72
    centres = axes.transData.transform(at)
    taken = [Bbox([p - r * pixels, p + r * pixels]) for p, r in zip(centres[:40], radius, strict=False)]
    for group, place, r in list(zip(groups, at, radius, strict=True))[:10]:
        for side, rise in product((1, -1), (0, 1, -1, 2, -2, 3, -3)):
            at_text = side * (r + 4), rise * max(r, 11)
            name = f"{group.index} · {short_name(group.label, 30)}"
            text = axes.annotate(name, place, at_text, ha="left" if side > 0 else "right", **style)
            box = text.get_window_extent().padded(1)
            inside = frame.x0 < box.x0 and box.x1 < frame.x1 and frame.y0 < box.y0 and box.y1 < frame.y1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                if rise:
                    axes.annotate("", place, at_text, textcoords="offset points", arrowprops={**line, "shrinkB": r})
                break
            text.remove()


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
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= READABLE:
        raise ConfigError(f"expected {name} to be a whole number from 1 to {READABLE}, got {value!r}")
    return int(value)
