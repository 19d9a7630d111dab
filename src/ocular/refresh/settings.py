"""The configuration of a refresh: a TOML file with the sections source, columns, model, gates and keep."""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ocular.data.readers import read
from ocular.errors import ConfigError, OcularError
from ocular.model import OCuLaR

SOURCE_KEYS = ("purchases", "query", "encoding", "refusals")
NOT_COLUMNS = ("source", "query", "encoding")  # parameters of `ocular.read` that stand under [source]
NOT_MODEL = ("verbose", "init", "min_value")  # parameters of OCuLaR that a file cannot say, or columns says
FIRST_FIT = {"n_coclusters": "auto", "regularization": "auto", "links": "auto"}  # as `ocular fit` has it


@dataclass(frozen=True)
class Gates:
    """Limits within which a new model replaces the served one."""

    min_rows: float = 1
    min_rows_ratio: float = 0.5  # against the served model's purchases
    max_rows_ratio: float | None = None
    min_clients_ratio: float = 0.5
    min_products_ratio: float = 0.5
    min_known_ratio: float = 0.5  # clients, products and pairs of the served model that are still there
    max_age_days: float | None = None  # of the newest purchase
    may_get_older: bool = False  # whether the newest purchase may be older than last time
    min_accuracy_ratio: float = 0.9  # recall of the new model over that of the served one
    held_out: float = 0.25  # share of the purchases that the back-test hides from both
    by_date: bool = True  # whether there is a second back-test, on the latest purchases, where they have dates
    at: int = 20  # recommendations per client in the back-test
    calibration: bool = True  # whether a model needs hit rates


@dataclass(frozen=True)
class Settings:
    """What a refresh reads, fits, requires and keeps."""

    folder: Path  # of the models
    purchases: list[str]
    columns: dict[str, Any]  # of `ocular.read`
    refusals: str | None = None
    reading: dict[str, Any] = field(default_factory=dict)  # query and encoding
    model: dict[str, Any] = field(default_factory=dict)  # parameters of OCuLaR
    without: list[str] = field(default_factory=list)  # products that are never recommended
    gates: Gates = Gates()
    keep: int = 7  # models


def read_settings(path: Path) -> Settings:
    """Read the TOML file; paths in it are relative to its folder."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"could not read {path}: {error.strerror}; expected a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    try:
        return _to_settings(content, path.resolve().parent)
    except OcularError as error:
        raise ConfigError(f"{path}: {error}") from error


def _to_settings(content: dict[str, Any], base: Path) -> Settings:
    _check_keys(content, ("source", "columns", "model", "gates", "keep"), "section")
    for name, section in content.items():
        if not isinstance(section, dict):
            raise ConfigError(f"expected a section [{name}], got {name} = {section!r}")
    source, columns, keep = _section(content, "source"), _section(content, "columns"), _section(content, "keep")
    model = _section(content, "model", required=False)
    _check_keys(source, SOURCE_KEYS, "key of [source]")
    _check_keys(columns, _parameters(read, NOT_COLUMNS), "key of [columns]")
    _check_keys(keep, ("folder", "models"), "key of [keep]")
    without = model.pop("without", [])
    _check_keys(model, [*_parameters(OCuLaR, NOT_MODEL), "without"], "key of [model]")
    for key, column in columns.items():
        if str(inspect.signature(read).parameters[key].annotation).startswith("str") and not isinstance(column, str):
            raise ConfigError(f"expected {key} in [columns] to be a text, got {column!r}")
    for key, section, name in (
        ("purchases", source, "source"), ("client", columns, "columns"), ("product", columns, "columns"),
        ("folder", keep, "keep"),
    ):  # fmt: skip
        if not section.get(key):
            raise ConfigError(f"expected {key} in [{name}], got none")
    places = source["purchases"] if isinstance(source["purchases"], list) else [source["purchases"]]
    refusals = source.get("refusals")
    texts = [*places, keep["folder"], *([] if refusals is None else [refusals]), *_texts(without)]
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise ConfigError(f"expected texts for purchases, refusals, folder and without, got {wrong[0]!r}")
    n_kept = keep.get("models", Settings.keep)
    if not isinstance(n_kept, int) or isinstance(n_kept, bool) or n_kept < 1:
        raise ConfigError(f"expected models in [keep] to be a whole number of at least 1, got {n_kept!r}")
    estimator = OCuLaR(**FIRST_FIT | model)
    estimator.config()
    estimator.evidence_request()  # what can be refused is refused before anything is read
    return Settings(
        folder=base / keep["folder"],
        purchases=[_place(place, base) for place in places],
        columns=columns,
        refusals=None if refusals is None else _place(refusals, base),
        reading={name: source[name] for name in ("query", "encoding") if name in source},
        model=model,
        without=_texts(without),
        gates=_to_gates(_section(content, "gates", required=False)),
        keep=n_kept,
    )


def _to_gates(section: dict[str, Any]) -> Gates:
    defaults = {entry.name: entry for entry in fields(Gates)}
    _check_keys(section, defaults, "key of [gates]")
    for name, value in section.items():
        is_flag, wanted = isinstance(value, bool), isinstance(defaults[name].default, bool)
        if is_flag != wanted or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ConfigError(
                f"expected {name} in [gates] to be {'true or false' if wanted else 'a number'}, got {value!r}"
            )
    gates = Gates(**section)
    if not 0 < gates.held_out < 1:
        raise ConfigError(f"expected held_out in [gates] between 0 and 1, got {gates.held_out!r}")
    if not isinstance(gates.at, int) or gates.at < 1:
        raise ConfigError(f"expected at in [gates] to be a whole number of at least 1, got {gates.at!r}")
    return gates


def _section(content: Mapping[str, Any], name: str, *, required: bool = True) -> dict[str, Any]:
    if required and name not in content:
        raise ConfigError(f"expected a section [{name}], got none")
    return dict(content.get(name, {}))


def _texts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _check_keys(given: Iterable[str], known: Iterable[str], kind: str) -> None:
    known = list(known)
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise ConfigError(f"there is no {kind} {key!r}; {hint}")


def _parameters(function: Any, left_out: Iterable[str]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in left_out]


def _place(place: str, base: Path) -> str:
    """Return a path relative to the file; addresses stay."""
    return place if "://" in place else str(base / place)
