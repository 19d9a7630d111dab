"""
The nightly pipeline: read, check, fit, calibrate, back-test, promote or refuse.

`pipeline.py` runs the steps of a `settings.py` file under a `lock.py`; `sanity.py` and `backtest.py` are its gates,
`summary.py` its report; `leftovers.py` removes what is no longer needed. `promotion.py` is the file that says which
model is served, and `serving.py` the order in which the application tries the models of a folder.
"""
