"""Options for OCuLaR's parameters, whose defaults stand in the estimator alone."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import click

FIT_PARAMETERS = {  # option -> parameter of OCuLaR
    "coclusters": "n_coclusters",
    "regularization": "regularization",
    "links": "links",
    "peers": "peers",
    "popularity": "popularity",
    "taste": "taste",
    "appeal": "appeal",
    "trend": "trend",
    "trend_half_life": "trend_half_life",
    "link_regularization": "link_regularization",
    "peer_regularization": "peer_regularization",
    "link_loss": "link_loss",
    "metric": "metric",
    "validation": "validation",
    "relative": "relative",
    "bias": "bias",
    "half_life": "half_life",
    "weight": "weights",
    "refusal_weight": "refusal_weight",
    "attribute_strength": "attribute_strength",
    "max_iter": "max_iter",
    "tol": "tol",
    "threads": "n_threads",
    "seed": "random_state",
}


AUTO = "auto"
COMMAND_DEFAULTS = {
    "n_coclusters": AUTO,
    "regularization": AUTO,
    "links": AUTO,
}  # of `ocular fit`, not of the estimator


def number_or_auto(text: str) -> float | int | str:
    """Return what an option says that takes a number or the word auto; the estimator refuses anything else."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


class ParameterOption(click.Option):
    """
    An option for a parameter of OCuLaR: None where it is not given, so that the estimator's own default holds.

    The help shows that default, or the command's own.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._parameter = FIT_PARAMETERS[str(self.name)]

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        default = default_of(self._parameter)
        if isinstance(self.type, click.types.FuncParamType):  # number_or_auto
            default = COMMAND_DEFAULTS.get(self._parameter, "auto with --links auto")
        if default is not None:
            extra["default"] = default if isinstance(default, str) else f"{default:g}"
        return extra


def parameter_option(name: str, **settings: Any) -> Callable[..., Any]:
    """Add an option for a parameter of OCuLaR."""
    return click.option(name, cls=ParameterOption, **settings)


@cache
def default_of(parameter: str) -> Any:
    """
    Return the default of a parameter of OCuLaR.

    It is read from the source of the estimator's signature: an import would make the help wait for NumPy and Numba.
    """
    source = (Path(__file__).parents[1] / "model" / "parameters.py").read_text(encoding="utf-8")
    parameters = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    init = next(node for node in parameters.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    arguments = init.args
    positional = zip(reversed(arguments.args), reversed(arguments.defaults), strict=False)
    keyword_only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    defaults = {argument.arg: value for argument, value in [*positional, *keyword_only] if value is not None}
    return ast.literal_eval(defaults[parameter])


def given_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of OCuLaR that the command line gave."""
    named = {parameter: options.get(option) for option, parameter in FIT_PARAMETERS.items()}
    # a flag that is not set says nothing: False is the default, and with --start the old model's value counts
    return {parameter: value for parameter, value in named.items() if value is not None and value is not False}
