"""
Every exception that a user can see. Each message is one line: expected, got, remedy.

A message may mention a parameter as `Parameter("min_value")`. The library writes its Python name; the command line
writes the option that the user typed, from the same error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A parameter that a message mentions, with a value to pass where one is suggested."""

    name: str
    value: Any = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


class Phrased(Exception):  # noqa: N818  the base of warnings too
    """A message in parts, some of which may be parameters."""

    def phrase(self, spell: Callable[[Parameter], str] = str) -> str:
        """Return the message with every parameter spelled by `spell`, by default as in Python."""
        return "".join(spell(part) if isinstance(part, Parameter) else str(part) for part in self.args)

    def __str__(self) -> str:
        return self.phrase()


class OcularError(Phrased):
    """Base of all errors that ocular raises on purpose."""


class DataError(OcularError, ValueError):
    """The purchases are not what the model expects."""


class ConfigError(OcularError, ValueError):
    """A parameter has a value that makes no sense."""


class FitError(OcularError, ArithmeticError):
    """A fit left the range of numbers it can be computed in."""


class UnknownNameError(OcularError, LookupError):
    """A client, product or column does not exist; the message names the nearest ones."""


class ArtifactError(OcularError):
    """A saved model or checkpoint is missing, damaged, tampered with or from a newer version."""


class ClusterError(OcularError):
    """Spark failed, or cannot be reached."""


class MissingExtraError(OcularError, ImportError):
    """An optional component is not installed; the message names the extra to install."""
