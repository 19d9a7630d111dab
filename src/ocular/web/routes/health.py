"""For machines that watch over the application: answered without the threads that pages need."""

from __future__ import annotations

from anyio import CapacityLimiter, fail_after, to_thread
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ocular.web.errors import UnavailableError
from ocular.web.services import App, Model

router = APIRouter()
PATIENCE = 3.0  # seconds
_threads = CapacityLimiter(2)


@router.get("/healthz")
async def alive() -> dict[str, str]:
    return {"status": "alive"}


@router.get("/readyz")
async def ready(app: App, served: Model) -> dict[str, str]:
    """A model is served and the database answers; 503 otherwise."""
    try:
        with fail_after(PATIENCE):
            await to_thread.run_sync(app.database.check, limiter=_threads, abandon_on_cancel=True)
    except TimeoutError:
        raise UnavailableError("the database does not answer") from None
    return {"status": "ready", "model": served.version}


@router.get("/metrics")
async def metrics() -> Response:
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
