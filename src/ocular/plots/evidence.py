"""The picture of a recommendation: the evidence of its reasons, patterns, links and peers alike."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from ocular.errors import ConfigError
from ocular.explain.names import client_name, product_name
from ocular.explain.reasons import APPEAL, LINKS, PATTERN, PEERS, TASTE, Explanation, Reason
from ocular.model import OCuLaR
from ocular.plots.drawing import (
    Theme,
    check_count,
    draw_squares,
    grid,
    letters,
    sentence,
    short_name,
    theme_named,
    write_below,
)

# isort: split
# after drawing.py, which says what to install where matplotlib is missing
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

Lists = list[list[int]]  # ids, a list for each reason
KINDS = {  # in a legend
    PATTERN: "pattern",
    LINKS: "products bought together",
    PEERS: "similar clients",
    TASTE: "taste",
    APPEAL: "clients with the same attribute",
}


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
    linked product, peers, the same attribute) and then, for every two of these, one of the group who did not. Taste has
    no rows and appeal no columns. `show_clients=False` names no other client.
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
    items = _shares([_columns(reason) for reason in reasons], check_count(max_items, "max_items"))
    clients = _shares([_buyers_and_others(reason) for reason in reasons], check_count(max_clients, "max_clients"))
    for reason, users in zip(reasons, clients, strict=True):
        users.sort(key=set(reason.other_users).__contains__)  # buyers first
    shown = [user for users in clients for user in users]
    rows = [short_name(data.user_name(u)) if show_clients else f"client {letters(n)}" for n, u in enumerate(shown)]
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
    lines = 3 if any(_is_narrow(len(owned), len(reasons)) for owned in items) else 2  # of the headers above the note
    note = "\n" * lines + "filled: has the product" + (f"; {rest:.0%} of the score is not shown" * (rest >= 0.005))
    handles = [Patch(fc=fill, ec=colors.accent, lw=2.5, label=verb.partition(" ")[0])]
    if any(reason.kind != PATTERN for reason in reasons):
        handles += [
            Patch(color=color, label=f"reason {number}: {KINDS[reason.kind]}")
            for number, (reason, color) in enumerate(zip(reasons, colors.palette, strict=False), 1)
        ]
    write_below(axes, note, handles, colors)
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
        fresh = [i for i in ids if i not in seen] or ids[:1]  # a list of which all are shown already repeats one
        room = max_ids - sum(map(len, shares))
        shares.append(fresh[: max(1, -(-room // left))])
        seen.update(shares[-1])
    return shares


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
        if wide:
            axes.plot([left - 0.44, last_column - 0.56], [bottom] * 2, color=color, **bar)
            separator = "\n" if _is_narrow(wide, len(reasons)) else " · "
            header = f"{'reason ' * (wide > 1)}{number + 1}{separator}{share:.0%}"
            axes.text((left + last_column - 1) / 2, bottom + 0.2, header, ha="center", va="top", **text)
        if rows[number]:
            axes.plot([right] * 2, [top - 0.44, last_row - 0.56], color=color, **bar)
            bought = f"reason {number + 1}: {len(reason.buyers):,} of {reason.group:,} bought it"
            bought += "" if wide else f" · {share:.0%}"
            axes.text(right + 0.25, (top + last_row - 1) / 2, bought, va="center", **text)


def _is_narrow(n_columns: int, n_reasons: int) -> bool:
    """Return whether the header of a reason needs two lines, so that it does not run into the next one."""
    return 0 < n_columns <= (2 if n_reasons == 1 else 4)
