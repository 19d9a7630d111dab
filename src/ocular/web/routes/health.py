"""Answers for monitoring, given without the threads that pages need."""

from __future__ import annotations

import os

from anyio import CapacityLimiter, fail_after, to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from ocular.web.dependencies import API_READER, METRICS_READER, CurrentModel, CurrentServices
from ocular.web.errors import UnavailableError

router = APIRouter()
TIMEOUT = 3.0  # seconds
_threads = CapacityLimiter(2)


@router.get("/healthz")
async def alive() -> dict[str, str]:
    return {"status": "alive"}


@router.get("/readyz")
async def ready(services: CurrentServices, served: CurrentModel) -> dict[str, str]:
    """Return the model's version if the database answers; 503 otherwise."""
    try:
        with fail_after(TIMEOUT):
            await to_thread.run_sync(services.database.check, limiter=_threads, abandon_on_cancel=True)
    except TimeoutError:
        raise UnavailableError("the database does not answer") from None
    return {"status": "ready", "model": served.version}


@router.get("/metrics", dependencies=[Depends(METRICS_READER)])
async def metrics() -> Response:
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/api/v1/openapi.json", dependencies=[Depends(API_READER)])
async def api_document(request: Request) -> Response:
    """Return the description of the API, which lists every address and so is not for strangers."""
    return JSONResponse(request.app.openapi())
