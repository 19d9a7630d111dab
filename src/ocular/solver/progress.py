"""The progress bar of a fit."""

from __future__ import annotations

from tqdm.auto import tqdm

from ocular.solver.fit import Callback


class Progress:
    """Passes every sweep on to the user's callback, and shows a bar if `show` is true."""

    def __init__(self, sweeps: int, *, show: bool, callback: Callback | None) -> None:
        self._callback = callback
        self._bar = tqdm(total=sweeps, unit="sweep", desc="fit", disable=not show)

    def __enter__(self) -> Callback:
        return self._report

    def _report(self, sweep: int, objective: float) -> None:
        self._bar.set_postfix(objective=f"{objective:.6g}")
        self._bar.update(sweep - self._bar.n)
        if self._callback is not None:
            self._callback(sweep, objective)

    def __exit__(self, *_: object) -> None:
        self._bar.close()
