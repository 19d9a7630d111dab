"""Options for OCuLaR's parameters, whose defaults stand in the estimator alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

FIT_PARAMETERS = {  # option -> parameter of OCuLaR
    "coclusters": "n_coclusters",
    "regularization": "regularization",
    "relative": "relative",
    "bias": "bias",
    "max_iter": "max_iter",
    "tol": "tol",
    "threads": "n_threads",
    "seed": "random_state",
}


class ParameterOption(click.Option):
    """
    An option for a parameter of OCuLaR: None where it is not given, so that the estimator's own default holds.

    The help shows that default; it is looked up only then, because its module imports NumPy.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._parameter = FIT_PARAMETERS[str(self.name)]

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        extra["default"] = f"{default_of(self._parameter):g}"
        return extra


def parameter_option(name: str, **settings: Any) -> Callable[..., Any]:
    """Add an option for a parameter of OCuLaR."""
    return click.option(name, cls=ParameterOption, **settings)


def default_of(parameter: str) -> Any:
    """Return the default of a parameter of OCuLaR."""
    from ocular.solver.config import FitConfig

    return getattr(FitConfig, parameter)


def given_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of OCuLaR that the command line gave."""
    named = {parameter: options.get(option) for option, parameter in FIT_PARAMETERS.items()}
    return {parameter: value for parameter, value in named.items() if value is not None}
