"""Pictures of clients × products: purchases with co-clusters, and probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.data.interactions import Interactions
from ocular.explain.coclusters import CoCluster
from ocular.model import OCuLaR
from ocular.plots.charts import NO_COCLUSTERS
from ocular.plots.drawing import (
    LINES,
    Theme,
    check_count,
    draw_squares,
    grid,
    letters,
    mix,
    readable_on,
    sentence,
    short_name,
    style_colorbar,
    theme_named,
    write_below,
)
from ocular.plots.ordering import Arrangement, arrange
from ocular.validation import check_ids

# isort: split
# after drawing.py, which says what to install where matplotlib is missing
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

Pairs = Iterable[tuple[int, int]]
MAX_NUMBERS = 20  # rows and columns of a table of probabilities, unless others are given


def plot_matrix(
    model: OCuLaR,
    *,
    coclusters: Sequence[CoCluster] | None = None,
    theme: str = "light",
    max_rows: int = 60,
    recommended: Pairs | None = None,
    show_clients: bool = True,
) -> Figure:
    """
    Draw who bought what, ordered so that co-clusters are blocks; what to sell next are the white squares in them.

    A side with more than `max_rows` clients or products shows the strongest members of the clearest co-clusters.
    `recommended` are the (user, item) pairs to outline, by default the best product of each client that is shown.
    """
    colors, data = theme_named(theme), model.interactions_
    all_coclusters = model.coclusters() if coclusters is None else coclusters
    shown = arrange(all_coclusters, data.shape, check_count(max_rows, "max_rows"))
    if not len(shown.users) or not len(shown.items):
        return sentence(NO_COCLUSTERS, colors)
    rows, columns = _names(data, shown)
    if not show_clients:
        rows = [f"client {letters(n)}" for n in range(len(rows))]
    figure, axes = grid(rows, columns, colors, "Co-clusters of clients (rows) and products (columns)")
    bought = _bought(data, shown)
    pairs = _next_purchases(model, shown) if recommended is None else list(recommended)
    row, column = ({int(i): at for at, i in enumerate(ids)} for ids in (shown.users, shown.items))
    outlined = [(row[u], column[i]) for u, i in pairs if u in row and i in column]
    draw_squares(axes, np.argwhere(bought), colors.bought, "bought")
    handles: list[Any] = [Patch(color=colors.bought, label="bought")]
    for number, cocluster in enumerate(shown.coclusters):
        handles.append(_draw_cocluster(axes, cocluster, shown, number, colors))
    thick = 2.6 if max(bought.shape) < 25 else 1.8
    draw_squares(axes, outlined, "#ffffff", "recommended", edgecolor=colors.accent, linewidth=thick, zorder=6)
    handles.insert(1, Patch(fc="#ffffff", ec=colors.accent, lw=2.5, label="recommended"))
    note = _sample_note(shown, data, len(all_coclusters))
    write_below(axes, note, handles, colors, ncols=1 if len(columns) < 30 else 2)
    return figure


def plot_probabilities(
    model: OCuLaR, *, users: ArrayLike | None = None, items: ArrayLike | None = None, theme: str = "light"
) -> Figure:
    """Draw a table of the probability of every shown pair: grey where bought, the deeper the more probable."""
    colors, data, all_coclusters = theme_named(theme), model.interactions_, model.coclusters()
    shown = arrange(all_coclusters, data.shape, MAX_NUMBERS)
    note = _sample_note(shown, data, len(all_coclusters), outlined=False) if users is None and items is None else ""
    if users is not None:
        shown = replace(shown, users=_checked_ids(users, data.n_users, "user"))
    if items is not None:
        shown = replace(shown, items=_checked_ids(items, data.n_items, "item"))
    if not len(shown.users) or not len(shown.items):
        return sentence(NO_COCLUSTERS, colors)
    probabilities = np.asarray(model.predict_proba(shown.users[:, None], shown.items))
    rows, columns = _names(data, shown)
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


def _names(data: Interactions, shown: Arrangement) -> tuple[list[str], list[str]]:
    """Return the names of rows and columns."""
    rows = [short_name(data.user_name(user)) for user in shown.users.tolist()]
    return rows, [short_name(data.item_name(item)) for item in shown.items.tolist()]


def _bought(data: Interactions, shown: Arrangement) -> NDArray[np.bool_]:
    rows = data.by_user.take(shown.users).matrix(data.n_items)
    bought: NDArray[np.bool_] = rows[:, shown.items].toarray() > 0
    return bought


def _next_purchases(model: OCuLaR, shown: Arrangement) -> list[tuple[int, int]]:
    """Return the most probable product of each shown client, where a shown co-cluster is a reason for it."""
    best = model.recommend(shown.users, N=1)[0][:, 0]
    reasons = [(set(each.users.tolist()), set(each.items.tolist())) for each in shown.coclusters]
    pairs = zip(shown.users.tolist(), best.tolist(), strict=True)
    return [(u, i) for u, i in pairs if any(u in users and i in items for users, items in reasons)]


def _sample_note(shown: Arrangement, data: Interactions, n_coclusters: int, outlined: bool = True) -> str:
    """Return a line that says which part is shown; empty if all is."""
    sides = [(len(shown.users), data.n_users, "clients"), (len(shown.items), data.n_items, "products")]
    parts = " and ".join(f"{n:,} of {all_:,} {side}" if n < all_ else f"all {n:,} {side}" for n, all_, side in sides)
    k = len(shown.coclusters)
    few = k < n_coclusters
    groups = f"the {'clearest ' * few}co-cluster" if k == 1 else f"the {k} {'clearest ' * few}co-clusters"
    if few:
        groups += f" (of {n_coclusters:,})"
    if any(n < all_ for n, all_, _ in sides):
        return f"{parts}: the strongest members of {groups}"
    return f"Outlined: {groups}" if outlined and k < n_coclusters else ""


def _draw_cocluster(axes: Axes, cocluster: CoCluster, shown: Arrangement, number: int, colors: Theme) -> Patch:
    """Tint and outline every run of neighbouring members; return the entry for the legend."""
    color, line = colors.palette[number % len(colors.palette)], LINES[number % len(LINES)]
    inset = 0.06 * (number % 3) - 0.06  # edges that coincide stay apart
    for top, bottom in _runs(np.isin(shown.users, cocluster.users)):
        for left, right in _runs(np.isin(shown.items, cocluster.items)):
            at, width, height = (left - 0.5 + inset, top - 0.5 + inset), right - left - 2 * inset, bottom - top
            box: dict[str, Any] = {"xy": at, "width": width, "height": height - 2 * inset}
            axes.add_patch(Rectangle(**box, fc=color, alpha=colors.tint, lw=0, zorder=1, clip_on=False))
            gid = f"co-cluster {cocluster.index}"
            axes.add_patch(Rectangle(**box, fill=False, ec=color, ls=line, lw=1.8, gid=gid, zorder=4, clip_on=False))
    tinted = mix(color, colors.paper, colors.tint)
    return Patch(fc=tinted, ec=color, ls=line, lw=1.8, label=f"{cocluster.index} · {short_name(cocluster.label, 44)}")


def _runs(held: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return (n, 2) the begin and end of every run of True."""
    return np.flatnonzero(np.diff(np.concatenate([[0], held, [0]]))).reshape(-1, 2)


def _checked_ids(ids: ArrayLike, n: int, kind: str) -> NDArray[np.int64]:
    checked = check_ids(ids, n, kind)
    check_count(len(checked), f"the number of {kind}s")
    return checked
