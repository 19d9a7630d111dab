"""What a refresh reports: its outcome, the gates it passed, and what it measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ocular.refresh.backtest import Backtest
from ocular.refresh.sanity import Check, Facts

PROMOTED, UNCHANGED, REFUSED, WOULD_PROMOTE = "promoted", "unchanged", "refused", "would promote"


@dataclass
class Summary:
    """What a refresh did, for people and for monitoring."""

    status: str = REFUSED
    reason: str = ""
    model: str | None = None  # name of the new model's folder; None where none was saved
    served: str | None = None  # name of the model that is served afterwards
    data: Facts | None = None
    data_before: Facts | None = None  # of the model that was served when the run began
    gates: list[Check] = field(default_factory=list)
    backtest: Backtest | None = None  # on purchases drawn at random
    backtest_by_date: Backtest | None = None  # on the latest; None where purchases have no dates that say something
    started_from: str | None = None  # the model that the fit went on from
    sweeps: int | None = None
    removed: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        plain = asdict(self)
        for name in ("backtest", "backtest_by_date"):
            backtest = getattr(self, name)
            if backtest is not None:
                plain[name] = backtest._asdict() | {"ratio": backtest.ratio}
        return plain
