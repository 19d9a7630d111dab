"""The page about the model that is served."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.templating import render
from ocular.web.tuning import read_search

router = APIRouter()


@router.get("/model")
def model(request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor) -> Response:
    fitted = served.advisor.model
    calibration, steps = fitted.calibration_, []
    if calibration is not None:
        columns = (calibration.starts, calibration.means, calibration.counts, calibration.rates)
        steps = list(zip(*(column.tolist() for column in columns), strict=True))
    values = {
        "visitor": visitor, "served": served, "model": fitted, "interactions": served.interactions, "steps": steps,
        "search": read_search(services.settings.models, served.fingerprint),
    }  # fmt: skip
    return render(request, "model.html", values)
