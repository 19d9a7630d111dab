"""The whitespace grid: for each client and family of products what they own, and the best chance among the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from ocular.feedback import Status
from ocular.web.campaign import is_settled
from ocular.web.database import Database
from ocular.web.registry import ServedModel
from ocular.web.tables import Feedback

MAX_COLUMNS = 40
N_SHADES, FULL_SHADE = 10, 0.5  # the chance from which on a cell has the deepest shade
PIPELINE, REFUSED = 1, 2  # in a table of statuses

Ints = NDArray[np.int64]


class Column(NamedTuple):
    """Products side by side: a family, a pattern, or a single product."""

    key: str  # for the address of the expanded family; the label of a single product
    name: str
    items: Ints
    is_product: bool = False


class Grid(NamedTuple):
    """The columns, and what they are called."""

    columns: list[Column]
    heading: str  # of a column: the attribute, "Pattern" or "Product"
    total: int  # columns that there would be without a limit


@dataclass(frozen=True)
class Cell:
    """A client and a column."""

    owned: int
    total: int  # products of the column
    chance: float | None  # the best among the products that are open; None where none is
    product: str | None  # the label of the best
    product_name: str | None
    pipeline: int
    refused: int

    @property
    def shade(self) -> int:
        """How deep the cell is shaded, from 0 to N_SHADES − 1."""
        return round((N_SHADES - 1) * math.sqrt(min(1.0, (self.chance or 0.0) / FULL_SHADE)))

    @property
    def quarters(self) -> int:
        """How many quarters of the column's products are owned, rounded up; a bar below the cell shows it."""
        return -(-4 * self.owned // self.total)

    @property
    def state(self) -> str:
        """What the cell shows first."""
        if self.owned == self.total:
            return "owned"
        if self.pipeline:
            return "pipeline"
        if self.chance is None:
            return "refused" if self.refused else "closed"
        return "open"


def find_columns(served: ServedModel, family: str = "") -> Grid | None:
    """Return the families as columns or, with `family`, its products; None for a family that does not exist."""
    families = _families(served)
    if not family:
        return families
    wanted = next((column for column in families.columns if column.key == family and not column.is_product), None)
    return None if wanted is None else _products(served, wanted.items)


def _families(served: ServedModel) -> Grid:
    catalog = served.catalog
    if catalog.families is not None:
        grouping = catalog.families
        columns = [Column(value, value, np.flatnonzero(grouping.codes == n)) for n, value in enumerate(grouping.values)]
        return Grid(columns, grouping.attribute, len(columns))
    patterns = sorted(served.patterns.values(), key=lambda pattern: -pattern.share)
    if len(patterns) >= 2:
        columns = [
            Column(str(pattern.index), served.pattern_label(pattern.index), np.sort(pattern.items))
            for pattern in patterns[:MAX_COLUMNS]
            if len(pattern.items)
        ]
        return Grid(columns, "pattern", len(patterns))
    return _products(served, np.arange(served.interactions.n_items))


def _products(served: ServedModel, items: Ints) -> Grid:
    """Return the products that most clients own, each a column."""
    degrees, labels = served.interactions.by_item.degrees, served.interactions.item_labels
    best = items[np.argsort(-degrees[items], kind="stable")][:MAX_COLUMNS]
    names = served.opportunities.product_names
    columns = [Column(str(labels[item]), names[item], np.array([item]), is_product=True) for item in best.tolist()]
    return Grid(columns, "product", len(items))


def fill_grid(served: ServedModel, database: Database, users: Ints, columns: Sequence[Column]) -> list[list[Cell]]:
    """Return a row of cells for each client."""
    interactions, model = served.interactions, served.advisor.model
    n_items = interactions.n_items
    ids, scores = model.recommend(users, N=n_items, filter_already_liked_items=False)
    probabilities = np.full((len(users), n_items), np.nan)  # nan for what is never recommended
    rows, places = np.nonzero(ids >= 0)
    probabilities[rows, ids[rows, places]] = scores[rows, places]
    chances = served.opportunities.expected_values.chances(np.nan_to_num(probabilities))
    taken = interactions.by_user.take(users)
    owned = np.zeros((len(users), n_items), dtype=bool)
    owned[np.repeat(np.arange(len(users)), taken.degrees), taken.indices] = True
    statuses = _statuses(served, database, users)
    chances[owned | np.isnan(probabilities) | (statuses == REFUSED)] = -1.0
    names, labels = served.opportunities.product_names, interactions.item_labels
    in_pipeline, refused = ~owned & (statuses == PIPELINE), ~owned & (statuses == REFUSED)
    by_column = []
    for column in columns:
        of_column = chances[:, column.items]
        best = of_column.argmax(axis=1)
        numbers = (
            part[:, column.items].sum(axis=1).tolist() for part in (owned, in_pipeline, refused)
        )  # of products of each client
        found = zip(of_column[np.arange(len(users)), best].tolist(), column.items[best].tolist(), *numbers, strict=True)
        by_column.append(
            [
                Cell(has, len(column.items), chance, str(labels[item]), names[item], pursued, no)
                if chance >= 0
                else Cell(has, len(column.items), None, None, None, pursued, no)
                for chance, item, has, pursued, no in found
            ]
        )
    return [list(cells) for cells in zip(*by_column, strict=True)] if by_column else [[] for _ in users]


def _statuses(served: ServedModel, database: Database, users: Ints) -> NDArray[np.int8]:
    """Return (n_users, n_items) the latest status of each pair: 0, PIPELINE or REFUSED."""
    interactions = served.interactions
    labels = [str(interactions.user_labels[user]) for user in users.tolist()]
    row_of, today = {label: row for row, label in enumerate(labels)}, datetime.now(UTC).date()
    statuses = np.zeros((len(users), interactions.n_items), dtype=np.int8)
    if interactions.refusals is not None:
        refused = interactions.refusals.take(users)
        statuses[np.repeat(np.arange(len(users)), refused.degrees), refused.indices] = REFUSED
    wanted = (Feedback.client, Feedback.product, Feedback.status, Feedback.due)
    query = select(*wanted).where(Feedback.client.in_(labels)).order_by(Feedback.id)
    with database.reading() as transaction:
        for client, product, status, due in transaction.execute(query):
            item = interactions.item_rows.get(product)
            if item is not None:
                settled = is_settled(status, due, today)
                statuses[row_of[client], item] = REFUSED if settled else PIPELINE if status == Status.PURSUING else 0
    return statuses
