"""One set of checks for what callers pass: whole numbers, numbers, choices, seeds, ids."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.errors import ConfigError, DataError, Parameter

MAX_RECOMMENDATIONS = 1_000_000  # per user: memory goes with it


def check_whole(value: Any, name: str, low: int = 0, high: int | None = None) -> int:
    """Return the value as an int, or raise a ConfigError where it is not a whole number from `low` to `high`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low or _above(value, high):
        limits = f"of at least {low:,}" if high is None else f"from {low:,} to {high:,}"
        raise ConfigError("expected ", Parameter(name), f" to be a whole number {limits}, got {value!r}")
    return int(value)  # NumPy's numbers do not fit into JSON


def check_number(
    value: Any, name: str, low: float = -math.inf, high: float = math.inf, *, above: float | None = None
) -> float:
    """Return the value as a float, or raise where it is not a finite number from `low` to `high`, or above `above`."""
    if (
        not _is_number(value)
        or not math.isfinite(value)
        or not low <= value <= high
        or (above is not None and value <= above)
    ):
        raise ConfigError("expected ", Parameter(name), f" to be a number{_limits(low, high, above)}, got {value!r}")
    return float(value)


def check_flag(value: Any, name: str) -> bool:
    """Return the value as a bool, or raise where it is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ConfigError("expected ", Parameter(name), f" to be True or False, got {value!r}")
    return bool(value)


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return the value, or raise where it is not one of the choices."""
    choices = tuple(choices)
    if not isinstance(value, str) or value not in choices:
        raise ConfigError("expected ", Parameter(name), f" to be one of {', '.join(choices)}, got {value!r}")
    return value


def check_share(value: Any, name: str) -> float:
    """Return the value as a float, or raise where it does not lie between 0 and 1."""
    if not _is_number(value) or not 0 < value < 1:
        raise ConfigError("expected ", Parameter(name), f" to be between 0 and 1, got {value!r}")
    return float(value)


def random_generator(seed: Any, name: str = "random_state") -> np.random.Generator:
    """Return the random numbers of a seed, a whole number that is not negative."""
    return np.random.default_rng(check_whole(seed, name))


def check_ids(ids: int | ArrayLike, n: int, kind: str) -> NDArray[np.int64]:
    """Return ids as an array of one dimension or more, or raise where one is not from 0 to n − 1."""
    given = np.asarray(ids)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise DataError(
            f"expected whole numbers as {kind} ids, got {given.dtype}; names go through interactions_.{kind}_index"
        )
    if given.size and (given.min() < 0 or given.max() >= n):
        wrong = given.min() if given.min() < 0 else given.max()
        raise DataError(f"expected {kind} ids from 0 to {n - 1}, got {wrong}")
    return np.atleast_1d(given).astype(np.int64)


def check_id(ids: int | ArrayLike, n: int, kind: str) -> int:
    """Return the only id, or raise where there are several."""
    given = check_ids(ids, n, kind)
    if given.size != 1:
        raise DataError(f"expected one {kind} id, got {given.size}")
    return int(given.flat[0])


def check_id_list(ids: int | ArrayLike, n: int, kind: str) -> NDArray[np.int64]:
    """Return one id or a list of ids as an array of one dimension, or raise where there are more dimensions."""
    given = check_ids(ids, n, kind)
    if given.ndim > 1:
        raise DataError(f"expected {kind} ids as one number or a list, got {given.ndim} dimensions")
    return given


def check_n(N: Any) -> int:
    """Return the number of recommendations asked for, or raise where it makes no sense."""
    return check_whole(N, "N", 1, MAX_RECOMMENDATIONS)


def allowed_mask(only: ArrayLike | None, without: ArrayLike | None, n: int, kind: str) -> NDArray[np.bool_] | None:
    """Return a mask of the ids in `only` (by default all) that are not in `without`; None where all are allowed."""
    if only is None and without is None:
        return None
    allowed = np.full(n, only is None)
    if only is not None:
        allowed[check_ids(only, n, kind)] = True
    if without is not None:
        allowed[check_ids(without, n, kind)] = False
    return allowed


def as_list(names: Any) -> list[Any]:
    """Return a list of names; a single name is a list of one."""
    return [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _above(value: Any, high: int | None) -> bool:
    return high is not None and value > high


def _limits(low: float, high: float, above: float | None) -> str:
    if above is not None:
        return f" above {above:g}" + (f", at most {high:g}" if high < math.inf else "")
    if low > -math.inf and high < math.inf:
        return f" from {low:g} to {high:g}"
    if low > -math.inf:
        return f" of at least {low:g}"
    return f" of at most {high:g}" if high < math.inf else ""
