"""
Six months of work on recommendations for the demo, made up but true to the sample.

What was won was bought on that day at that price; what was refused was not bought; each recommendation is one of the
model that was served at the time, which had not seen the purchase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from ocular.feedback import REASONS, Status
from ocular.synthetic.showcase_names import HERO, HERO_PRODUCT
from ocular.web.feedback_seal import shown_recommendation
from ocular.web.registry import ServedModel
from ocular.web.shown import pair_digest
from ocular.web.tables import AuditEntry, Base, Feedback, Shown, User

SEED, PERIOD = 6, 182  # days
N_CONSIDERED = 8  # recommendations per client that a seller looks at
N_BEST = 2  # of them that stay open
WON_SHARE = 0.4  # of purchases that were recommended: the others came without a call
N_REFUSED = (70, 150)  # from, to: calls of a seller that may come to nothing
SNOOZED_DAYS = (0, 12, 26)  # from today on which a seller's snoozed ones return
FOLLOW_UPS = (-2, 0, 1, 3, 4, 9, 15, 22)  # days from today on which open calls are due, for each seller
REASON_SHARES = (0.3, 0.17, 0.2, 0.16, 0.12, 0.05)
NOTES = (
    "Head of operations wants a quote by Friday.", "Budget is free from next quarter.", "Asked for a demo on site.",
    "Their IT wants to see the security paper first.", "Interested, decides after the board meeting.",
    "Would start with one site.", "Left a message with the assistant.", "Compares with what they have today.",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A status that a seller gave to a recommendation."""

    at: datetime
    client: str
    product: str
    status: Status
    reason: str = ""
    note: str = ""
    due: date | None = None
    amount: float | None = None


def rows(models: list[ServedModel], owners: dict[str, User], now: datetime) -> Iterator[Base]:
    """Yield feedback, entries of the audit log and what was shown, by the models of the time, the oldest first."""
    rng = np.random.default_rng(SEED)
    offers = [_offers(model) for model in models]
    steps = [*_won(rng, models, offers, now), *_refused(rng, models, offers, owners, now)]
    steps += _open(rng, models, owners, {(step.client, step.product) for step in steps}, now)
    steps.sort(key=lambda step: step.at)
    for step in steps:
        user, model = owners[step.client], _model_at(models, step.at)
        found = shown_recommendation(model, model.advisor.explain(step.client, step.product))
        yield Feedback(
            at=step.at, client=step.client, product=step.product, user_id=user.id, status=step.status,
            reason=step.reason, note=step.note, due=step.due, amount=step.amount, model=found.model,
            confidence=found.confidence, pattern=found.pattern, label=found.label,
        )  # fmt: skip
        yield AuditEntry(
            at=step.at, name=user.name, action=f"feedback: {step.status}",
            subject=f"{step.client} · {step.product}", address="127.0.0.1",
        )  # fmt: skip
    yield from _shown(rng, models, offers, steps, owners, now)


def _offers(model: ServedModel) -> dict[str, list[str]]:
    """Return the first products that a model recommends to each client, the best first."""
    data = model.interactions
    items, _ = model.advisor.model.recommend(np.arange(data.n_users), N=N_CONSIDERED)
    products = data.item_labels[items].tolist()
    return {str(client): listed for client, listed in zip(data.user_labels.tolist(), products, strict=True)}


def _model_at(models: list[ServedModel], at: datetime) -> ServedModel:
    return [model for model in models if model.created <= at or model is models[0]][-1]


def _won(
    rng: np.random.Generator, models: list[ServedModel], offers: list[dict[str, list[str]]], now: datetime
) -> Iterator[Step]:
    """Yield calls that ended with the purchase that the data has."""
    data = models[-1].interactions
    purchases: Any = data.purchases
    order = np.argsort(purchases.time, kind="stable")
    pairs, first = np.unique(purchases.pair[order], return_index=True)
    for pair, place in zip(pairs.tolist(), order[first].tolist(), strict=True):
        bought = purchases.time[place].astype("datetime64[s]").item().replace(tzinfo=UTC)
        won = bought + timedelta(minutes=rng.integers(9 * 60, 17 * 60).item())
        called = won - timedelta(days=int(rng.integers(6, 30)), minutes=int(rng.integers(240)))
        lucky = rng.random() < WON_SHARE * _zeal(called, now)
        client = str(data.user_labels[data.pair_users[pair]])
        product = str(data.item_labels[data.by_user.indices[pair]])
        if called < models[0].created or won > now or not lucky:
            continue
        if product in offers[models.index(_model_at(models, called))].get(client, []):
            amount = float(purchases.price[place] * purchases.quantity[place])
            step = Step(called, client, product, Status.PURSUING, note=_note(rng), due=won.date())
            yield step
            yield replace(step, at=won, status=Status.WON, note="", due=None, amount=round(amount, 2))


def _refused(
    rng: np.random.Generator,
    models: list[ServedModel],
    offers: list[dict[str, list[str]]],
    owners: dict[str, User],
    now: datetime,
) -> Iterator[Step]:
    """Yield calls that were lost, and recommendations that did not fit."""
    data, taken = models[-1].interactions, set[tuple[str, str]]()
    for user in dict.fromkeys(owners.values()):
        clients = [client for client, owner in owners.items() if owner is user]
        for _ in range(rng.integers(*N_REFUSED)):
            at = now - timedelta(minutes=int(PERIOD * 24 * 60 * rng.beta(1.0, 1.4)) + 600)
            client, zeal = clients[rng.integers(len(clients))], rng.random()
            number = models.index(_model_at(models, at))
            best = offers[-1][client][:N_BEST]
            left = [product for product in offers[number].get(client, []) if product not in best]
            product = left[rng.integers(len(left))] if left else None
            owned = product is None or data.item_rows[product] in data.by_user[data.user_rows[client]]
            if product is None or owned or (client, product) in taken or zeal > _zeal(at, now):
                continue
            taken.add((client, product))
            reason = str(rng.choice(REASONS, p=REASON_SHARES))
            called = at - timedelta(days=int(rng.integers(3, 25)))
            if rng.random() < 0.35 or called < models[number].created:
                yield Step(at, client, product, Status.NOT_A_FIT, reason)
            else:
                yield Step(called, client, product, Status.PURSUING, note=_note(rng), due=at.date())
                yield Step(at, client, product, Status.LOST, reason)


def _open(
    rng: np.random.Generator,
    models: list[ServedModel],
    owners: dict[str, User],
    taken: set[tuple[str, str]],
    now: datetime,
) -> Iterator[Step]:
    """Yield what sellers work on today: follow-ups of this week and later, one overdue, and some snoozed."""
    for number, user in enumerate(dict.fromkeys(owners.values())):
        pairs = [
            (client, product)
            for client, product in _by_value(models[-1], [client for client, owner in owners.items() if owner is user])
            if client != HERO and product != HERO_PRODUCT and (client, product) not in taken
            if models[-2].knows(client, product)  # the latest is of last night
        ][N_BEST * 3 :]  # the most valuable stay next steps
        once = list({client: (client, product) for client, product in reversed(pairs)}.values())[::-1]
        once = [once[place] for place in rng.permutation(min(len(once), 3 * len(FOLLOW_UPS))).tolist()]
        follow_ups = FOLLOW_UPS[number % 2 :] if number else FOLLOW_UPS
        notes = rng.permutation(NOTES).tolist()
        for days, note, (client, product) in zip(follow_ups, notes, once, strict=False):
            due = (now + timedelta(days=days)).date()
            yield Step(_lately(rng, now), client, product, Status.PURSUING, note=note, due=due)
        for days, (client, product) in zip(SNOOZED_DAYS, once[len(FOLLOW_UPS) :], strict=False):
            due = (now + timedelta(days=days)).date()
            yield Step(_lately(rng, now), client, product, Status.SNOOZED, "Bad timing", due=due)


def _by_value(model: ServedModel, clients: list[str]) -> list[tuple[str, str]]:
    """Return the first recommendations to these clients, the most valuable first."""
    users = np.array([model.interactions.user_rows[client] for client in clients])
    items, confidences = model.advisor.model.recommend(users, N=N_CONSIDERED)
    values = np.nan_to_num(model.opportunities.expected_values.values(items, confidences.astype(np.float64)))
    rows, places = np.divmod(np.argsort(-values, axis=None, kind="stable"), items.shape[1])
    labels = model.interactions.item_labels[items[rows, places]].tolist()
    return [(clients[row], str(label)) for row, label in zip(rows.tolist(), labels, strict=True)]


def _shown(
    rng: np.random.Generator,
    models: list[ServedModel],
    offers: list[dict[str, list[str]]],
    steps: list[Step],
    owners: dict[str, User],
    now: datetime,
) -> Iterator[Shown]:
    """Yield when recommendations were first seen: before what was said of them, and many without a word."""
    seen: dict[tuple[str, str], datetime] = {}
    for step in steps:
        before = step.at - timedelta(hours=int(rng.integers(1, 90)))
        seen.setdefault((step.client, step.product), max(before, _model_at(models, step.at).created))
    for number, model in enumerate(models[:-1]):
        end = models[number + 1].created if number + 1 < len(models) else now
        for client, products in offers[number].items():
            for product in products[: int(rng.integers(6))]:
                seen.setdefault((client, product), model.created + (end - model.created) * float(rng.beta(1.5, 1.0)))
    for (client, product), at in seen.items():
        version = _model_at(models, at).version
        pair, user_id = pair_digest(client, product), owners[client].id
        yield Shown(pair=pair, client=client, product=product, at=at, user_id=user_id, model=version)


def _lately(rng: np.random.Generator, now: datetime) -> datetime:
    """Return a time of the last two weeks, before the earliest follow-up was due."""
    return now - timedelta(minutes=int(rng.integers(4 * 24 * 60, 14 * 24 * 60)))


def _zeal(at: datetime, now: datetime) -> float:
    """Return how much of what could be done was done at a time: the teams had to get used to it."""
    return float(np.clip(1 - 0.75 * (now - at) / timedelta(days=PERIOD), 0, 1))


def _note(rng: np.random.Generator) -> str:
    return str(rng.choice(NOTES)) if rng.random() < 0.6 else ""
