"""About the model that is served."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ocular.web.access import AnyVisitor, App
from ocular.web.templating import render

router = APIRouter()


@router.get("/model")
def model(request: Request, app: App, visitor: AnyVisitor) -> Response:
    served = app.served
    fitted = served.advisor.model
    steps = []
    if fitted.calibration_ is not None:
        c = fitted.calibration_
        steps = list(zip(c.starts.tolist(), c.means.tolist(), c.counts.tolist(), c.rates.tolist(), strict=True))
    values = {"visitor": visitor, "served": served, "model": fitted, "history": fitted.interactions_, "steps": steps}
    return render(request, "model.html", values)
