"""Messages in parts: the library spells parameters as in Python, the command line as options."""

from __future__ import annotations

import copy

import pytest

from ocular import errors
from ocular.errors import ConfigError, DataError, OcularError, Parameter, Phrased, UnknownNameError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OcularError)]


def option(parameter: Parameter) -> str:
    spelled = f"--{parameter.name.replace('_', '-')}"
    return spelled if parameter.value is None else f"{spelled} {parameter.value}"


def test_one_error_in_two_spellings() -> None:
    error = DataError(
        "expected 0 or 1, got 3; pass ", Parameter("min_value", 3), " or leave ", Parameter("value"), " out"
    )
    assert str(error) == "expected 0 or 1, got 3; pass min_value=3 or leave value out"
    assert error.phrase(option) == "expected 0 or 1, got 3; pass --min-value 3 or leave --value out"


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_an_ocular_error_with_a_plain_message(kind: type[OcularError]) -> None:
    assert str(kind("expected ", Parameter("n"), " to be 1")) == "expected n to be 1"
    assert str(kind("one part")) == "one part"
    with pytest.raises(Phrased, match="expected n"):
        raise kind("expected ", Parameter("n"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_another_process_says_the_same(kind: type[OcularError]) -> None:
    error = kind("expected ", Parameter("n", 2), ", got 1")
    copied = copy.copy(error)  # by the same protocol as between processes
    assert type(copied) is kind
    assert copied.phrase(option) == "expected --n 2, got 1"


def test_errors_are_what_python_programmers_catch() -> None:
    assert issubclass(DataError, ValueError)
    assert issubclass(ConfigError, ValueError)
    assert issubclass(UnknownNameError, LookupError)
    assert issubclass(errors.MissingExtraError, ImportError)
    assert str(UnknownNameError("no client named 'X'")) == "no client named 'X'"  # not quoted as a KeyError would be
