"""The application: routes, what every answer carries, and what a refusal looks like."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from urllib.parse import quote

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from ocular.errors import OcularError, UnknownNameError
from ocular.version import __version__
from ocular.web.access import Application
from ocular.web.database import Database, DatabaseError
from ocular.web.errors import RefusedError, SignInError
from ocular.web.middleware import Guard
from ocular.web.registry import Registry
from ocular.web.routes import accounts, admin, api, health, model, patterns, sign_in, team
from ocular.web.settings import Settings
from ocular.web.templating import render

API = "/api/v1"
THREADS = 3  # that answer at once: they take turns at one interpreter, and more would only take turns more often
PAGES = (sign_in, accounts, patterns, team, model, admin)


def create_app(settings: Settings) -> FastAPI:
    database, registry = Database(settings.database), Registry(settings.models, settings.watch)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        database.upgrade()
        registry.start()
        gc.freeze()  # a collection would look through the whole model
        yield
        registry.stop()
        database.close()

    app = FastAPI(
        title="ocular", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=f"{API}/openapi.json", separate_input_output_schemas=False,
    )  # fmt: skip
    app.state.application = Application(settings, database, registry)
    for page in PAGES:
        app.include_router(page.router, include_in_schema=False)
    app.include_router(health.router, include_in_schema=False)
    app.include_router(api.router, prefix=API)
    app.mount("/static", StaticFiles(directory=str(files("ocular.web") / "static")), name="static")
    app.add_exception_handler(OcularError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse)
    app.add_middleware(Guard, settings=settings, fail=_fail)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """One line and a status: as JSON to programs, as a page to people, who are led to the sign-in first."""
    status, line = 400, str(error)
    if isinstance(error, RefusedError):
        status = error.status
    elif isinstance(error, DatabaseError):
        status = 503
    elif isinstance(error, UnknownNameError):
        status, line = 404, "there is no such client or product"  # the nearest names may be other people's clients
    elif isinstance(error, HTTPException):
        status, line = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        status = 422
        line = "; ".join(f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors())
    headers = {"Retry-After": "5"} if status == 503 else dict(getattr(error, "headers", None) or {})
    if request.url.path.startswith(API):
        return JSONResponse({"error": line}, status, headers=headers)
    if isinstance(error, SignInError):
        wanted = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        return RedirectResponse(f"/sign-in?next={quote(wanted)}" if request.method == "GET" else "/sign-in", 303)
    values = {"status": status, "line": line, "visitor": getattr(request.state, "visitor", None)}
    return render(request, "refusal.html", values, status_code=status, headers=headers)


async def _fail(request: Request, _error: Exception) -> Response:
    line = "something went wrong on our side; it has been logged"
    if request.url.path.startswith(API):
        return JSONResponse({"error": line}, 500)
    return render(request, "refusal.html", {"status": 500, "line": line}, status_code=500)
