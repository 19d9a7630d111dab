"""Charts of numbers: co-clusters by size, confidence against outcome, a search over K and λ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ocular.errors import DataError
from ocular.explain.calibration import Calibration, Reliability
from ocular.explain.coclusters import CoCluster
from ocular.model import OCuLaR
from ocular.plots.drawing import (
    LINES,
    PLAIN,
    THOUSANDS,
    Theme,
    log_axis,
    new_axes,
    new_picture,
    readable_on,
    sentence,
    set_title,
    short_name,
    style_axes,
    style_colorbar,
    theme_named,
)
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

if TYPE_CHECKING:
    from ocular.evaluation.search_result import SearchResult, SearchRow
    from ocular.evaluation.trial import GridPoint

NO_COCLUSTERS = "The model has no co-clusters to show."
MAX_NUMBERS = 12  # rows and columns of a heat map with numbers in it
MAX_NAMED_DOTS = 10


def plot_coclusters(model: OCuLaR, *, coclusters: Sequence[CoCluster] | None = None, theme: str = "light") -> Figure:
    """
    Draw every co-cluster by its number of clients and products.

    Its colour is its density, its area the share of purchases that it explains. `coclusters` are others than those of
    `model.coclusters()`.
    """
    colors = theme_named(theme)
    ordered = sorted(  # small ones are drawn on top
        model.coclusters() if coclusters is None else coclusters, key=lambda cocluster: -cocluster.share
    )
    if not ordered:
        return sentence(NO_COCLUSTERS, colors)
    figure, axes = new_axes((8.5, 6.0), colors)
    x, y = (np.array([len(getattr(cocluster, side)) for cocluster in ordered]) for side in ("users", "items"))
    share = np.array([cocluster.share for cocluster in ordered])
    crowd = 700 / (1 + len(ordered) / 600)  # many markers must be small ones
    area = np.maximum(crowd * share / max(share.max(), 1e-12), 8)
    density = np.array([cocluster.density for cocluster in ordered])
    dots = axes.scatter(
        x, y, s=area, c=density, cmap="viridis", vmin=0, vmax=max(density.max(), 1e-12), alpha=0.85,
        edgecolors=colors.ink, linewidths=0.6 if len(ordered) < 300 else 0.2, zorder=3,
    )  # fmt: skip
    log_axis(axes, "x", x)
    log_axis(axes, "y", y)
    style_axes(axes, colors)
    axes.set_xlabel(f"clients in the co-cluster\narea: share of purchases explained, up to {share.max():.1%}")
    axes.set_ylabel("products in the co-cluster")
    set_title(axes, f"{len(ordered):,} co-clusters: size, density and what they explain", colors)
    bar = figure.colorbar(dots, ax=axes, aspect=30, pad=0.02, format=PercentFormatter(1.0, decimals=0))
    style_colorbar(bar, "density: share of its client–product pairs that are bought", colors)
    _name_dots(figure, axes, ordered, np.column_stack([x, y]), np.sqrt(area) / 2, colors)
    return figure


def plot_reliability(
    source: OCuLaR | Calibration | Reliability, *, before: Reliability | None = None, theme: str = "light"
) -> Figure:
    """
    Draw the observed hit rate against the confidence, a marker per bin: on the diagonal the two agree.

    The source is a calibrated model (or its `calibration_`), whose steps are drawn, or the bins that
    `measure_reliability` found; `before` are bins to compare with, those of the same recommendations not calibrated.
    """
    colors = theme_named(theme)
    series = [("confidence" if before is None else "calibrated", _bins_of(source), colors.palette[0], "o")]
    if before is not None:
        series.insert(0, ("before", _bins_of(before), colors.palette[1], "D"))
    figure = new_picture((6.4, 7.4), colors)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.4, 1))
    upper.plot([0, 1], [0, 1], color=colors.muted, lw=1.2, ls=(0, (4, 3)), label="perfectly calibrated", zorder=2)
    width = 0.018
    for number, (name, bins, color, marker) in enumerate(series):
        x, y, n = bins
        upper.plot(x, y, color=color, lw=1.4, zorder=3)
        area = 25 + 220 * n / n.max()
        upper.scatter(x, y, s=area, color=color, marker=marker, edgecolors=colors.paper, linewidths=0.8, zorder=4)
        label = f"{name} · expected calibration error {bins.error:.3f}"
        upper.add_line(Line2D([], [], color=color, marker=marker, ms=8, label=label))
        shift = (number - (len(series) - 1) / 2) * width
        lower.bar(x + shift, n, width=width, color=color, zorder=3)
    smallest, largest = (pick(pick(bins.counts) for _, bins, _, _ in series) for pick in (min, max))
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


def plot_search(result: SearchResult, *, theme: str = "light") -> Figure:
    """Draw heat maps of co-clusters × regularization, one per variant; the best and the interpretable are outlined."""
    colors, metric = theme_named(theme), f"{result.metric}@{result.M}"
    chosen = [(result.interpretable, LINES[2], "fewest co-clusters within one standard error")]
    chosen.append((result.best, LINES[0], "best"))
    if result.best.point == result.interpretable.point:
        chosen = [(result.best, LINES[0], "best and interpretable")]
    variants = sorted({row.point.variant for row in result.rows})
    sides = [sorted({getattr(row.point, name) for row in result.rows}) for name in ("n_coclusters", "regularization")]
    with_numbers = max(map(len, sides)) <= MAX_NUMBERS
    cell = 0.58 if with_numbers else 0.26
    height, width = (cell * len(side) for side in sides)
    size = max(max(width + 0.8, 2.6) * len(variants) + 1.4, 4.0), max(height, 1.2) + 1.9
    figure = new_picture(size, colors)
    panels = figure.subplots(1, len(variants), squeeze=False)[0]
    low, high = (pick(row.mean for row in result.rows) for pick in (min, max))
    for axes, variant in zip(panels, variants, strict=True):
        rows = [row for row in result.rows if row.point.variant == variant]
        image = _draw_means(
            axes, rows, sides, (low, max(high, low + 1e-9)), result.best.folds if with_numbers else None
        )
        for row, line, _ in chosen:
            if any(row.point == other.point for other in rows):
                x, y = _square(row.point, sides)
                halo = [withStroke(linewidth=5 if with_numbers else 3.5, foreground="#ffffff")]
                style: dict[str, Any] = {
                    "ls": line,
                    "lw": 2.6 if with_numbers else 1.8,
                    "path_effects": halo,
                    "zorder": 4,
                }
                axes.add_patch(Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, fill=False, ec=colors.accent, **style))
        _name_sides(axes, sides, colors)
        name = f"{'R-' * variant[0]}OCuLaR{' with biases' * variant[1]}"
        if {tol for _, _, tol in variants} != {FitConfig.tol}:
            name += f", tol {variant[2]:g}"
        axes.set_title(name, fontsize=10, color=colors.ink)
    panels[0].set_ylabel("co-clusters K", color=colors.ink, fontsize=10)
    style_colorbar(figure.colorbar(image, ax=list(panels), pad=0.02), metric, colors)
    between = " of" if result.measure == metric else ","
    title = f"{result.measure}{between} {len(result.rows):,} settings"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=colors.ink)
    handles = [Patch(fill=False, ec=colors.accent, ls=line, lw=2, label=name) for _, line, name in chosen[::-1]]
    if with_numbers and any(row.folds < result.best.folds for row in result.rows):
        handles.append(Patch(fill=False, lw=0, label="(…) measured on fewer folds"))
    figure.legend(handles=handles, loc="outside lower left", frameon=False, labelcolor=colors.ink, fontsize=9)
    return figure


def _square(point: GridPoint, sides: list[list[Any]]) -> tuple[int, int]:
    return sides[1].index(point.regularization), sides[0].index(point.n_coclusters)


def _draw_means(
    axes: Axes, rows: list[SearchRow], sides: list[list[Any]], limits: tuple[float, float], folds: int | None
) -> Any:
    """Draw the settings that were measured; where `folds` is given, write their means and bracket those of fewer."""
    table = np.full([len(side) for side in sides], np.nan)
    for row in rows:
        table[_square(row.point, sides)[::-1]] = row.mean
    image = axes.imshow(table, cmap="viridis", origin="lower", aspect="equal", vmin=limits[0], vmax=limits[1])
    for row in rows if folds is not None else []:
        text = f"{row.mean:.3f}".removeprefix("0")
        color = readable_on(image.cmap((row.mean - limits[0]) / (limits[1] - limits[0])))
        shown = text if row.folds == folds else f"({text})"
        axes.text(*_square(row.point, sides), shown, ha="center", va="center", fontsize=8.5, color=color, zorder=3)
    return image


def _name_sides(axes: Axes, sides: list[list[Any]], colors: Theme) -> None:
    """Write the values of K and λ at the squares."""
    names = [[f"{value:g}" for value in side] for side in sides]
    turned = len(names[1]) > MAX_NUMBERS or max(map(len, names[1])) > 5
    text: dict[str, Any] = {"fontsize": 9 if len(names[1]) <= MAX_NUMBERS else 7.5, "color": colors.ink}
    axes.set_yticks(range(len(names[0])), names[0], **text)
    axes.set_xticks(range(len(names[1])), names[1], rotation=90 if turned else 0, **text)
    axes.tick_params(length=0)
    axes.set_facecolor(colors.cell)  # of what was not measured
    axes.spines[:].set_visible(False)
    axes.set_xlabel("regularization λ", color=colors.ink, fontsize=10)


def _bins_of(source: OCuLaR | Calibration | Reliability) -> Reliability:
    """Return the bins of a calibration, or those that were given, without the empty ones."""
    if not isinstance(source, Calibration | Reliability):
        if source.calibration_ is None:
            raise DataError("expected a calibrated model; call model.calibrate() first")
        source = source.calibration_
    if isinstance(source, Calibration):
        return Reliability(source.means, source.rates, source.counts)
    bins = [np.asarray(values).ravel() for values in source]
    if len({len(values) for values in bins}) > 1 or not (bins[2] > 0).any():
        sizes = ", ".join(str(len(values)) for values in bins)
        raise DataError(f"expected confidence, rate and counts of the same bins, some not empty, got {sizes}")
    filled = bins[2] > 0
    return Reliability(*(values[filled] for values in bins))


def _name_dots(
    figure: Figure, axes: Axes, coclusters: Sequence[CoCluster], at: NDArray[Any], radius: NDArray[Any], colors: Theme
) -> None:
    """Name those that explain most, where there is room for the name beside the marker."""
    figure.draw_without_rendering()
    style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "zorder": 6, **PLAIN}
    style |= {"color": colors.ink, "path_effects": [withStroke(linewidth=2.5, foreground=colors.paper)]}
    line = {"arrowstyle": "-", "color": colors.muted, "lw": 0.8, "shrinkA": 0}
    frame, pixels = axes.get_window_extent(), figure.dpi / 72
    centres = axes.transData.transform(at)
    taken = [Bbox([p - r * pixels, p + r * pixels]) for p, r in zip(centres[:40], radius, strict=False)]
    for cocluster, place, r in list(zip(coclusters, at, radius, strict=True))[:MAX_NAMED_DOTS]:
        for side, rise in product((1, -1), (0, 1, -1, 2, -2, 3, -3)):
            at_text = side * (r + 4), rise * max(r, 11)
            name = f"{cocluster.index} · {short_name(cocluster.label, 30)}"
            text = axes.annotate(name, place, at_text, ha="left" if side > 0 else "right", **style)
            box = text.get_window_extent().padded(1)
            inside = frame.x0 < box.x0 and box.x1 < frame.x1 and frame.y0 < box.y0 and box.y1 < frame.y1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                if rise:
                    axes.annotate("", place, at_text, textcoords="offset points", arrowprops={**line, "shrinkB": r})
                break
            text.remove()
