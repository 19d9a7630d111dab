"""Pictures of clients × products: purchases with co-clusters, probabilities, the evidence for a recommendation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.data.interactions import Interactions
from ocular.errors import ConfigError
from ocular.explain.coclusters import CoCluster
from ocular.explain.names import client_name, product_name
from ocular.explain.reasons import LINKS, PATTERN, PEERS, Explanation, Reason
from ocular.model import OCuLaR
from ocular.plots.charts import NO_COCLUSTERS
from ocular.plots.drawing import (
    LINES,
    Theme,
    draw_squares,
    grid,
    mix,
    readable_on,
    sentence,
    short_name,
    style_colorbar,
    theme_named,
    write_below,
)
from ocular.plots.ordering import Arrangement, arrange
from ocular.validation import check_ids, check_whole

# isort: split
# after drawing.py, which says what to install where matplotlib is missing
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

Pairs = Iterable[tuple[int, int]]
Lists = list[list[int]]  # ids, a list for each reason
KINDS = {PATTERN: "", LINKS: " (bought together)", PEERS: " (similar clients)"}  # beside the rows of a reason
MAX_ROWS = 200  # or columns of any picture: more could not be read
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
    shown = arrange(all_coclusters, data.shape, _count(max_rows, "max_rows"))
    if not len(shown.users) or not len(shown.items):
        return sentence(NO_COCLUSTERS, colors)
    rows, columns = _names(data, shown)
    if not show_clients:
        rows = [f"client {_letters(n)}" for n in range(len(rows))]
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


def plot_evidence(
    source: OCuLaR | Explanation,
    user: int | None = None,
    item: int | None = None,
    *,
    theme: str = "light",
    max_clients: int = 8,
    max_items: int = 12,
    show_clients: bool = True,
) -> Figure:
    """
    Draw the evidence for one recommendation: `plot_evidence(model, user, item)`, or of an explanation alone.

    Each reason has the client's purchases that it rests on as columns: those in a pattern, those that links name, those
    in common with peers. Its rows are the similar clients who bought the product (in the pattern, owners of the first
    linked product, peers) and then, for every two of these, one of the group who did not. `show_clients=False` names no
    other client.
    """
    explanation = _explanation(source, user, item)
    colors, data = theme_named(theme), explanation.interactions
    title_names = short_name(product_name(explanation.product), 40), short_name(client_name(explanation.client), 40)
    summary = explanation.summary()
    reasons = summary.shown_reasons
    verb = "bought by" if explanation.owned else "recommended to" if reasons else "for"
    title = f"{title_names[0]}\n{verb} {title_names[1]} · confidence {explanation.confidence:.2f}"
    if not reasons:
        return sentence(f"{title}\nThe model has no co-cluster to name as the reason.", colors)
    items = _shares([_columns(reason) for reason in reasons], _count(max_items, "max_items"))
    clients = _shares([_buyers_and_others(reason) for reason in reasons], _count(max_clients, "max_clients"))
    for reason, users in zip(reasons, clients, strict=True):
        users.sort(key=set(reason.other_users).__contains__)  # buyers first
    shown = [user for users in clients for user in users]
    rows = [short_name(data.user_name(u)) if show_clients else f"client {_letters(n)}" for n, u in enumerate(shown)]
    columns = [short_name(data.item_name(i)) for owned in items for i in owned]
    names = short_name(explanation.client), short_name(explanation.product)
    figure, axes = grid([*rows, names[0]], [*columns, names[1]], colors, title, cell=0.34)
    for number, cells in enumerate(_purchases(explanation, items, clients)):
        draw_squares(axes, cells, colors.palette[number], f"reason {number + 1}")
    fill = colors.palette[0] if explanation.owned else "#ffffff"
    corner = [(len(rows), len(columns))]
    draw_squares(axes, corner, fill, "recommended", edgecolor=colors.accent, linewidth=3, zorder=6)
    axes.axhspan(len(rows) - 0.5, len(rows) + 0.5, color=colors.accent, alpha=0.12, lw=0, zorder=0.5)
    for label in (axes.get_yticklabels()[-1], axes.get_xticklabels()[-1]):
        label.set(fontweight="bold", color=colors.accent)
    shares = [reason.named_contribution / summary.affinity for reason in reasons]
    _draw_brackets(axes, [len(ids) for ids in items], [len(ids) for ids in clients], reasons, shares, colors)
    rest = 1 - sum(shares)
    lines = 3 if min(map(len, items)) <= 2 else 2  # of the headers above the note
    note = "\n" * lines + "filled: has the product" + (f"; {rest:.0%} of the score is not shown" * (rest >= 0.005))
    write_below(axes, note, [Patch(fc=fill, ec=colors.accent, lw=2.5, label=verb.partition(" ")[0])], colors)
    return figure


def _explanation(source: OCuLaR | Explanation, user: int | None, item: int | None) -> Explanation:
    if isinstance(source, Explanation):
        return source
    if user is None or item is None:
        raise ConfigError("expected a model with user= and item=, or an explanation")
    return source.explain(user, item)


def _columns(reason: Reason) -> list[int]:
    """Return the purchases that a reason rests on; links to weaker ones are not drawn."""
    return reason.named_items if reason.kind == LINKS else reason.owned_items


def _buyers_and_others(reason: Reason) -> list[int]:
    """Return two clients who bought the product for each who did not, as long as there are both, then the others."""
    buyers, others = reason.buyers, reason.other_users
    turns = zip_longest(buyers[::2], buyers[1::2], others)
    return [user for turn in turns for user in turn if user is not None]


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


def _purchases(explanation: Explanation, items: Lists, clients: Lists) -> list[list[tuple[int, int]]]:
    """Return for each reason the squares to fill: who has its items, the client last; who of its clients bought."""
    column, last_column = 0, sum(map(len, items))
    rows = [set(explanation.interactions.by_user[user].tolist()) for users in clients for user in users]
    rows.append(set(explanation.client_items.tolist()))
    row, filled = 0, []
    for owned, users in zip(items, clients, strict=True):
        cells = [(r, column + c) for r, has in enumerate(rows) for c, item in enumerate(owned) if item in has]
        filled.append(cells + [(r, last_column) for r in range(row, row + len(users)) if explanation.item in rows[r]])
        row, column = row + len(users), column + len(owned)
    return filled


def _shares(groups: Lists, max_ids: int) -> Lists:
    """Return the first ids of each list, at most `max_ids` together (but one per list), without repeating any."""
    seen: set[int] = set()
    shares: Lists = []
    for left, ids in zip(range(len(groups), 0, -1), groups, strict=True):
        fresh = [i for i in ids if i not in seen] or ids  # a list of which all are shown already repeats one
        room = max_ids - sum(map(len, shares))
        shares.append(fresh[: max(1, -(-room // left))])
        seen.update(shares[-1])
    return shares


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


def _draw_brackets(
    axes: Axes, columns: list[int], rows: list[int], reasons: list[Reason], shares: list[float], colors: Theme
) -> None:
    """Write below the columns of each reason its share of the score, and beside its rows how many of them bought."""
    bar: dict[str, Any] = {"lw": 4, "solid_capstyle": "butt", "clip_on": False}
    text: dict[str, Any] = {"fontsize": 8.5, "color": colors.ink}
    right, bottom = sum(columns) + 0.65, sum(rows) + 0.75
    for number, (reason, share) in enumerate(zip(reasons, shares, strict=True)):
        last_column, last_row = sum(columns[: number + 1]), sum(rows[: number + 1])
        color, wide = colors.palette[number], columns[number]
        left, top = last_column - wide, last_row - rows[number]
        axes.plot([left - 0.44, last_column - 0.56], [bottom] * 2, color=color, **bar)
        axes.plot([right] * 2, [top - 0.44, last_row - 0.56], color=color, **bar)
        separator = " · " if wide > 2 else "\n"
        header = f"{'reason ' * (wide > 1)}{number + 1}{separator}{share:.0%}"
        axes.text((left + last_column - 1) / 2, bottom + 0.2, header, ha="center", va="top", **text)
        bought = f"reason {number + 1}{KINDS[reason.kind]}: {len(reason.buyers):,} of {reason.group:,} bought it"
        axes.text(right + 0.25, (top + last_row - 1) / 2, bought, va="center", **text)


def _letters(number: int) -> str:
    """Return A, B, …, Z, AA, AB, … for 0, 1, …"""
    first = _letters(number // 26 - 1) if number >= 26 else ""
    return first + ascii_uppercase[number % 26]


def _checked_ids(ids: ArrayLike, n: int, kind: str) -> NDArray[np.int64]:
    checked = check_ids(ids, n, kind)
    _count(len(checked), f"the number of {kind}s")
    return checked


def _count(value: int, name: str) -> int:
    return check_whole(value, name, 1, MAX_ROWS)
