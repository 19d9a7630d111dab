"""Gates on what was read: how many rows, clients and products there are, and how new they are, against last time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ocular.data.interactions import Interactions
from ocular.evaluation.matching import pair_codes, rows_by_label
from ocular.refresh.settings import Gates


@dataclass(frozen=True)
class Facts:
    """The size and the age of purchases."""

    rows: int
    clients: int
    products: int
    newest: str | None  # day of the newest purchase; None where purchases have no dates

    @classmethod
    def of(cls, interactions: Interactions) -> Facts:
        purchases = interactions.purchases
        times = None if purchases is None else purchases.time
        known = None if times is None or np.isnat(times).all() else np.nanmax(times).astype("datetime64[D]")
        return cls(
            rows=interactions.nnz if purchases is None else len(purchases),
            clients=interactions.n_users,
            products=interactions.n_items,
            newest=None if known is None else str(known),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return them for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """One gate: what was measured, what was required, and whether that is enough."""

    gate: str
    value: float | str | None
    limit: float | str | None
    passed: bool
    text: str  # one line that says what is wrong


def check_data(now: Interactions, before: Interactions | None, gates: Gates) -> list[Check]:
    """Return the gates on purchases, those of the served model being the measure."""
    facts = Facts.of(now)
    checks = [_at_least("min_rows", facts.rows, gates.min_rows, f"{facts.rows:,} rows")]
    if gates.max_age_days is not None:
        checks.append(_age(facts, gates.max_age_days))
    if before is None:
        return checks
    old = Facts.of(before)
    for name, limit in (
        ("rows", gates.min_rows_ratio), ("clients", gates.min_clients_ratio), ("products", gates.min_products_ratio)
    ):  # fmt: skip
        have, had = getattr(facts, name), getattr(old, name)
        checks.append(_at_least(f"min_{name}_ratio", have / max(had, 1), limit, f"{have:,} {name} where {had:,} were"))
    if gates.max_rows_ratio is not None:
        ratio = facts.rows / max(old.rows, 1)
        text = (
            f"{facts.rows:,} rows where {old.rows:,} were is {ratio:.2f} times as many, above {gates.max_rows_ratio:g}"
        )
        checks.append(Check("max_rows_ratio", ratio, gates.max_rows_ratio, ratio <= gates.max_rows_ratio, text))
    codes = pair_codes(before, rows_by_label(now.user_rows, before.user_labels),
                       rows_by_label(now.item_rows, before.item_labels), now.n_items)  # fmt: skip
    today = pair_codes(now, np.arange(now.n_users), np.arange(now.n_items), now.n_items)
    for name, known in (
        ("clients", rows_by_label(now.user_rows, before.user_labels) >= 0),
        ("products", rows_by_label(now.item_rows, before.item_labels) >= 0),
        ("pairs", np.isin(codes, today)),
    ):
        text = f"{known.sum():,} of the {len(known):,} {name} of the served model are still there"
        checks.append(_at_least("min_known_ratio", float(known.mean()), gates.min_known_ratio, text))
    if old.newest is not None:
        went_on = facts.newest is not None and facts.newest >= old.newest
        text = f"the newest purchase is of {facts.newest or 'no known day'}, before {old.newest} last time"
        checks.append(Check("newest", facts.newest, old.newest, went_on or gates.may_get_older, text))
    return checks


def _at_least(gate: str, value: float, limit: float, text: str) -> Check:
    return Check(gate, value, limit, value >= limit, f"{text}: {gate} is {limit:g}")


def _age(facts: Facts, limit: float) -> Check:
    if facts.newest is None:
        return Check("max_age_days", None, limit, False, "max_age_days needs purchases with dates; give [columns] time")
    days = (datetime.now(UTC).date() - datetime.fromisoformat(facts.newest).date()).days
    return Check("max_age_days", days, limit, days <= limit, f"the newest purchase is {days} days old, above {limit:g}")
