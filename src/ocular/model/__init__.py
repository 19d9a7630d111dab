"""
The estimator.

`estimator.py` has OCuLaR itself with `fit`; its other methods come from parts that only need what is below them:
`parameters.py` (the constructor) ← `fitted.py` (the attributes) ← `choosing.py` ("auto"), `cold.py` (new rows),
`ranking.py`, `explaining.py` and `saving.py`; `fitting.py` has what a fit adds to the patterns, which Ctrl-C may leave
out.
"""

from ocular.model.estimator import NotConvergedWarning, OCuLaR, fitted_parameters, load, parameters_of

__all__ = ["NotConvergedWarning", "OCuLaR", "fitted_parameters", "load", "parameters_of"]
