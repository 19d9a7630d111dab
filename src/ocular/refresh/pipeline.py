"""
One refresh: read, check, fit, calibrate, back-test, save, promote.

A model is saved once, whole and calibrated, and is served only after promoted.json names it: a run that is killed or
runs out of disk leaves the served model as it was. A model that the back-test refuses is saved too, not promoted, so
that somebody can look at it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ocular.artifact import MANIFEST
from ocular.data.feedback_refusals import is_database, is_feedback, read_feedback_refusals
from ocular.data.interactions import Interactions
from ocular.data.readers import read
from ocular.data.refusals import refusals_of
from ocular.errors import ArtifactError, ConfigError, DataError
from ocular.evaluation.calibration import calibrate
from ocular.model import OCuLaR, fitted_parameters, load
from ocular.refresh import leftovers
from ocular.refresh.backtest import Backtest, compare_by_date, compare_with_served
from ocular.refresh.fingerprint import fingerprint_of
from ocular.refresh.lock import locked
from ocular.refresh.promotion import (
    Promotions,
    changing,
    new_promotion,
    read_promotions,
    write_promotions,
)
from ocular.refresh.sanity import Check, Facts, check_data
from ocular.refresh.serving import BROKEN, one_line, serving_order
from ocular.refresh.settings import FIRST_FIT, Settings
from ocular.refresh.summary import PROMOTED, REFUSED, UNCHANGED, WOULD_PROMOTE, Summary

LOCK_FILE = ".refresh.lock"
COMMAND = "ocular refresh"

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Served:
    """The model that is served when the run begins."""

    name: str
    model: OCuLaR


def refresh(settings: Settings, *, dry_run: bool = False, from_scratch: bool = False, say: Say = print) -> Summary:
    """
    Make a new model of today's purchases and promote it, unless a gate refuses it.

    `dry_run` does everything but saving, promoting and removing. `from_scratch` fits without the served model as a
    start, also where nothing has changed.
    """
    folder = settings.folder
    if (folder / MANIFEST).exists():
        raise ConfigError(f"expected a folder of models in [keep], got {folder}, which is a model; give its parent")
    with locked(folder / LOCK_FILE):
        summary = Summary()
        if not dry_run:
            summary.removed += leftovers.remove_leftovers(folder)
        served = _load_served(folder, say)
        promotions = read_promotions(folder) or _first_promotions(served)
        summary.served = None if served is None else served.name
        interactions, refusals = _read(settings, served, say)
        summary.data = Facts.of(interactions)
        fingerprint = fingerprint_of(interactions, refusals, settings)
        if not from_scratch and (unchanged := _unchanged(promotions, served, fingerprint)):
            summary.status, summary.reason = UNCHANGED, unchanged
            if not dry_run:  # a run that was killed after its promotion has not tidied up
                _tidy_up(settings, summary, say)
            return summary
        before = None if served is None else served.model.interactions_
        summary.data_before = None if before is None else Facts.of(before)
        if not _passes(summary, check_data(interactions, before, settings.gates)):
            return summary
        model = _fit(
            settings, interactions, refusals, None if from_scratch else served, fingerprint, summary, dry_run, say
        )
        acceptable = _passes(summary, _calibrated(model, settings, say))
        if served is not None and acceptable:
            acceptable = _passes(summary, _backtest(model, served.model, settings, summary, say))
        if dry_run:
            summary.status = WOULD_PROMOTE if acceptable else REFUSED
            return summary
        _begin_promotions(folder, promotions)
        name = leftovers.new_model_name(folder)
        model.save(folder / name)
        summary.model = name
        if acceptable:
            _promote(folder, name, fingerprint, promotions, summary, say)
        else:
            summary.reason += f"; {name} is saved but not served: `ocular promote {folder / name}` overrules the gate"
        _tidy_up(settings, summary, say)
        return summary


def read_refusals(place: str, settings: Settings) -> list[tuple[Any, Any]]:
    """Return pairs that do not fit, from the application's database or export or a table with the same columns."""
    if is_database(place) or is_feedback(place):
        return list(read_feedback_refusals(place))
    columns = {name: settings.columns[name] for name in ("client", "product")}
    table = read(place, **columns)
    pairs = zip(table.user_labels[table.pair_users], table.item_labels[table.by_user.indices], strict=True)
    return [(client, product) for client, product in pairs]


def _read(settings: Settings, served: _Served | None, say: Say) -> tuple[Interactions, list[tuple[Any, Any]] | None]:
    refusals = None if served is None else refusals_of(served.model.interactions_)
    if settings.refusals is not None:
        refusals = read_refusals(settings.refusals, settings)
        say(f"{len(refusals):,} refusals")
    try:
        interactions = read(settings.purchases, **settings.reading, **settings.columns)
    except TypeError as error:  # a column that is a number, for example
        raise DataError(f"[columns] is not what ocular.read takes ({error})") from error
    say(f"read {interactions}")
    return interactions, refusals


def _load_served(folder: Path, say: Say) -> _Served | None:
    """Return the model that the application serves, as it chooses it."""
    for path, _ in serving_order(folder, lambda path, reason: say(f"{path.name} cannot be served: {reason}")):
        try:
            return _Served(path.name, load(path))
        except BROKEN as error:
            say(f"{path.name} cannot be served: {one_line(error)}")
    return None


def _unchanged(promotions: Promotions, served: _Served | None, fingerprint: str) -> str | None:
    """Return why there is nothing to do, or None."""
    if served is not None:
        for promotion in promotions.served:
            if promotion.model == served.name and promotion.fingerprint == fingerprint:
                return f"purchases and settings are those of {served.name}, which is served"
    for promotion in promotions.withdrawn:
        if promotion.fingerprint == fingerprint:
            return f"purchases and settings are those of {promotion.model}, which was rolled back"
    return None


def _passes(summary: Summary, checks: Iterable[Check]) -> bool:
    """Add checks to the summary and return whether all were passed."""
    checks = list(checks)
    summary.gates += checks
    failed = [check.text for check in checks if not check.passed]
    summary.reason = "; ".join([*filter(None, [summary.reason]), *failed])
    return not failed


def _fit(
    settings: Settings,
    interactions: Interactions,
    refusals: list[tuple[Any, Any]] | None,
    served: _Served | None,
    fingerprint: str,
    summary: Summary,
    dry_run: bool,
    say: Say,
) -> OCuLaR:
    start = None if served is None else served.model
    wanted = settings.model.get("n_coclusters", "auto")
    if start is not None and wanted not in ("auto", start.config_.n_coclusters):
        say(f"fitting from scratch: {wanted} co-clusters are wanted, the served model has {start.config_.n_coclusters}")
        start = None
    summary.started_from = None if start is None or served is None else served.name
    parameters = FIRST_FIT if start is None else fitted_parameters(start)
    names = set() if interactions.item_names is None else {str(name) for name in interactions.item_names}
    known = [name for name in settings.without if interactions.find_item(name) is not None or name in names]
    if gone := [name for name in settings.without if name not in known]:
        say(f"without: {', '.join(gone)} is not among today's products")

    def fit(checkpoint: Path | None) -> OCuLaR:
        model = OCuLaR(**parameters | settings.model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(interactions, checkpoint=checkpoint, start=start, refusals=refusals, without=known or None)
        for warning in caught:
            say(str(warning.message))
        if model.interrupted_:
            raise KeyboardInterrupt
        summary.sweeps = model.n_iter_
        return model

    if dry_run:
        return fit(None)
    checkpoint = leftovers.checkpoint_of(settings.folder, fingerprint)
    if others := leftovers.remove_checkpoints(settings.folder, but=checkpoint):
        summary.removed += others
        say("a checkpoint of other purchases or settings was removed; the fit starts anew")
    try:
        return fit(checkpoint)
    except ArtifactError as error:
        if not checkpoint.exists():
            raise
        say(f"the fit starts anew: {error}")
        checkpoint.unlink()
        return fit(checkpoint)


def _calibrated(model: OCuLaR, settings: Settings, say: Say) -> list[Check]:
    """Measure hit rates, and return whether that was possible where it is required."""
    try:
        calibrate(model)
    except DataError as error:
        say(f"no hit rates ({error})")
        if settings.gates.calibration:
            return [Check("calibration", None, None, False, f"hit rates cannot be measured ({error})")]
    return []


def _backtest(model: OCuLaR, served: OCuLaR, settings: Settings, summary: Summary, say: Say) -> list[Check]:
    """Compare the new model with the served one, and return whether it is as accurate."""
    share, at = settings.gates.held_out, settings.gates.at
    summary.backtest = compare_with_served(model, served, share, at, seed=model.config_.seed or 0)
    if summary.backtest is None:
        say("no back-test: the purchases that the served model shares with today's are too few")
    if settings.gates.by_date:
        summary.backtest_by_date = compare_by_date(model, served, share, at)
    named = (("random", summary.backtest), ("the latest", summary.backtest_by_date))
    return [_accurate(kind, backtest, settings, say) for kind, backtest in named if backtest is not None]


def _accurate(kind: str, backtest: Backtest, settings: Settings, say: Say) -> Check:
    limit = settings.gates.min_accuracy_ratio
    found = (
        f"recall@{backtest.at} is {backtest.recall:.4f}, that of the served model {backtest.served_recall:.4f} "
        f"(standard error of the difference {backtest.standard_error:.4f})"
    )
    say(f"back-test on {backtest.hidden:,} hidden purchases, {kind}: {found}")
    text = f"on {kind} purchases {found}: min_accuracy_ratio is {limit:g}"
    return Check("min_accuracy_ratio", backtest.ratio, limit, backtest.ratio >= limit or backtest.may_be_chance, text)


def _first_promotions(served: _Served | None) -> Promotions:
    """Return the promotions of a folder that has none yet: the model that is served as the newest."""
    return Promotions(() if served is None else (new_promotion(served.name, "served before promotions"),))


def _begin_promotions(folder: Path, promotions: Promotions) -> None:
    """Write promoted.json where there is none: without it a model would be served as the newest once it is saved."""
    with changing(folder):
        if read_promotions(folder) is None:
            write_promotions(folder, promotions)


def _promote(folder: Path, name: str, fingerprint: str, before: Promotions, summary: Summary, say: Say) -> None:
    """Name the model in promoted.json, unless somebody has changed that since the run began."""
    with changing(folder):
        promotions = read_promotions(folder) or Promotions()
        if promotions.served[:1] != before.served[:1]:
            now = " ".join(promotions.names[:1]) or "nothing"
            summary.reason = f"{now} was promoted while this run was under way; {name} is saved but not served"
            return
        try:
            write_promotions(folder, promotions.with_first(new_promotion(name, COMMAND, fingerprint)))
        except ArtifactError as error:
            if (read_promotions(folder) or Promotions()).names[:1] != [name]:
                raise
            say(f"{name} is promoted, but the disk has not confirmed it: {error}")  # the flush after the rename failed
    summary.status, summary.served = PROMOTED, name


def _tidy_up(settings: Settings, summary: Summary, say: Say) -> None:
    """Keep the latest models; what cannot be removed now waits for the next run, as a promotion has taken place."""
    try:
        _keep(settings, summary)
    except (ArtifactError, OSError) as error:
        say(f"old models stay: {error}")


def _keep(settings: Settings, summary: Summary) -> None:
    """Keep the latest models, and remove the others that a refresh has made, and checkpoints."""
    summary.removed += leftovers.remove_checkpoints(settings.folder)
    with changing(settings.folder):
        promotions = read_promotions(settings.folder)
        if promotions is not None and len(promotions.served) > settings.keep:
            promotions = promotions.kept(settings.keep)
            write_promotions(settings.folder, promotions)  # first: nothing that is removed may be named
        if promotions is not None:
            withdrawn = [promotion.model for promotion in promotions.withdrawn[: settings.keep]]
            summary.removed += leftovers.remove_old_models(settings.folder, [*promotions.names, *withdrawn])
