"""The page about the model that is served: how it works, and how well."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ocular.evaluation.quality import read_quality
from ocular.explain.calibration import Calibration
from ocular.web.charts import nice_top
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.templating import render
from ocular.web.tuning import METHOD_NAMES, method_of, read_search

router = APIRouter()


@router.get("/model")
def model(request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor) -> Response:
    fitted, folder = served.advisor.model, services.settings.models
    calibration, steps = fitted.calibration_, []
    if calibration is not None:
        columns = (calibration.starts, calibration.means, calibration.counts, calibration.rates)
        steps = list(zip(*(column.tolist() for column in columns), strict=True))
    values = {
        "visitor": visitor, "served": served, "model": fitted, "interactions": served.interactions, "steps": steps,
        "curve": curve_of(calibration), "search": read_search(folder, served.fingerprint),
        "quality": read_quality(folder), "method_names": METHOD_NAMES, "own_method": method_of(fitted),
    }  # fmt: skip
    return render(request, "model.html", values)


def curve_of(calibration: Calibration | None) -> dict[str, object] | None:
    """Return the points of the calibration curve (chance, share bought, number) and the end of its axes."""
    if calibration is None:
        return None
    checked = calibration.checked
    columns = (calibration.means, calibration.rates, calibration.counts) if checked is None else checked
    points = list(zip(*(column.tolist() for column in columns), strict=True))
    top = nice_top(max(max(point[:2]) for point in points))
    return {"points": points, "top": min(top, 1.0), "by_chance": checked is not None}
