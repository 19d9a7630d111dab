"""Charts of numbers: co-clusters by size, confidence against outcome, a search over K and λ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.errors import ConfigError
from ocular.plots.drawing import (
    LINES,
    PLAIN,
    THOUSANDS,
    Theme,
    log_axis,
    new_figure,
    readable_on,
    sentence,
    set_title,
    short_name,
    style_axes,
    style_colorbar,
    theme_named,
)
from ocular.plots.ordering import Group
from ocular.solver.config import FitConfig

# isort: split
# after drawing.py, which says what to install where matplotlib is missing
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import NullLocator, PercentFormatter
from matplotlib.transforms import Bbox

Bins = tuple[ArrayLike, ArrayLike, ArrayLike]  # predicted, observed, counts
NONE = "The model has no co-clusters to show."
VALUES = 12  # rows and columns of a heat map with numbers in it


class Setting(Protocol):
    """A point of a search."""

    @property
    def n_coclusters(self) -> int: ...
    @property
    def regularization(self) -> float: ...
    @property
    def variant(self) -> tuple[bool, bool, float]: ...  # relative, bias, tol


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
    variants = sorted({row.point.variant for row in result.rows})
    sides = [sorted({getattr(row.point, name) for row in result.rows}) for name in ("n_coclusters", "regularization")]
    written = max(map(len, sides)) <= VALUES
    cell = 0.58 if written else 0.26
    height, width = (cell * len(side) for side in sides)
    size = max(max(width + 0.8, 2.6) * len(variants) + 1.4, 4.0), max(height, 1.2) + 1.9
    figure = Figure(figsize=size, layout="constrained", facecolor=colors.paper)
    panels = figure.subplots(1, len(variants), squeeze=False)[0]
    low, high = (pick(row.mean for row in result.rows) for pick in (min, max))
    for axes, variant in zip(panels, variants, strict=True):
        rows = [row for row in result.rows if row.point.variant == variant]
        image = _draw_means(axes, rows, sides, (low, max(high, low + 1e-9)), result.best.folds if written else None)
        for row, line, _ in chosen:
            if any(row.point == other.point for other in rows):
                x, y = _square(row.point, sides)
                halo = [withStroke(linewidth=5 if written else 3.5, foreground="#ffffff")]
                style: dict[str, Any] = {"ls": line, "lw": 2.6 if written else 1.8, "path_effects": halo, "zorder": 4}
                axes.add_patch(Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, fill=False, ec=colors.accent, **style))
        _name_sides(axes, sides, colors)
        name = f"{'R-' * variant[0]}OCuLaR{' with biases' * variant[1]}"
        if {tol for _, _, tol in variants} != {FitConfig.tol}:
            name += f", tol {variant[2]:g}"
        axes.set_title(name, fontsize=10, color=colors.ink)
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


def _bins(predicted: ArrayLike, observed: ArrayLike, counts: ArrayLike) -> list[NDArray[np.float64]]:
    values = [np.asarray(v, np.float64).ravel() for v in (predicted, observed, counts)]
    if len({len(v) for v in values}) > 1 or not (values[2] > 0).any():
        sizes = ", ".join(str(len(v)) for v in values)
        raise ConfigError(f"expected predicted, observed and counts of the same bins, some not empty, got {sizes}")
    return [v[values[2] > 0] for v in values]


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
