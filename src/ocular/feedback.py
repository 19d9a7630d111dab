"""The statuses that a seller gives to a recommendation, shared by the application and the evaluation."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """What a seller says of a recommendation."""

    PURSUING = "pursuing"
    SNOOZED = "snoozed"  # until a day, then it is open again
    NOT_A_FIT = "not a fit"
    WON = "won"
    LOST = "lost"


OPEN = frozenset({Status.PURSUING, Status.SNOOZED})
CLOSED = frozenset({Status.NOT_A_FIT, Status.WON, Status.LOST})  # nothing more is to be done
TAKEN_UP = frozenset({Status.PURSUING, Status.WON})  # as an evaluation counts them
REFUSED = frozenset({Status.NOT_A_FIT, Status.LOST})  # a snoozed one is neither
REASONS = ("Too expensive", "Already has it", "Competitor", "Bad timing", "No need", "Other")  # why it was refused
# of these, what says nothing against the product for the next client like this one
NEUTRAL_REASONS = frozenset({"Already has it", "Competitor", "Bad timing"})
