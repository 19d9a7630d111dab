"""For machines that watch over the application."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ocular.web.access import App

router = APIRouter()


@router.get("/healthz")
async def alive() -> dict[str, str]:
    return {"status": "alive"}


@router.get("/readyz")
def ready(app: App) -> dict[str, str]:
    """A model is served and the database answers; 503 otherwise."""
    app.database.check()
    return {"status": "ready", "model": app.served.version}


@router.get("/metrics")
def metrics() -> Response:
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
