"""The application: its routes, and what a refusal looks like."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote, unquote_plus

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from sqlalchemy.exc import IntegrityError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from ocular.errors import OcularError, UnknownNameError
from ocular.version import __version__
from ocular.web.audit import ViewLog
from ocular.web.auth import Visitor
from ocular.web.database import Database, DatabaseError
from ocular.web.dependencies import LEADERS, AllowedBySession, visitor_by_session
from ocular.web.draft_feedback import read_draft, render_draft
from ocular.web.errors import ConflictError, InputError, RefusedError, SignInError, StaleFormError
from ocular.web.middleware import Guard
from ocular.web.registry import Registry
from ocular.web.routes import (
    admin,
    api,
    api_new_rows,
    calls,
    client,
    clients,
    health,
    invitations,
    model,
    new_rows,
    news,
    patterns,
    performance,
    products,
    profile,
    recommendations,
    search,
    sign_in,
    sso,
    team,
    today,
    user_import,
    whitespace,
)
from ocular.web.services import Services
from ocular.web.settings import Settings
from ocular.web.shared_arrays import SharedArrays
from ocular.web.static_files import InMemoryStaticFiles
from ocular.web.tables import LABEL
from ocular.web.templating import render

API = "/api/v1"
NO_ROUTE = {404: "Nothing found at this address", 405: "This address cannot be used in this way"}
UNAVAILABLE = "Temporarily unavailable; try again in a moment"  # the log says more
MAX_THREADS = 16  # that answer at once; most of them wait for the database, and MAX_COMPUTING of them compute
COMPRESSION = 4  # level of gzip: pages get a fifth of their size in a fraction of a millisecond
PAGES = (
    sign_in, sso, invitations, profile, today, clients, calls, client, recommendations, patterns, products, whitespace,
    search, new_rows, team, performance, news, model, admin, user_import,
)  # fmt: skip
# after these errors a person may send the feedback again
RETRYABLE = (StaleFormError, ConflictError, InputError, RequestValidationError, DatabaseError)


def create_app(settings: Settings) -> FastAPI:
    """Return the application; its database is opened and its model loaded when it starts."""
    arrays = None if settings.arrays is None else SharedArrays(settings.arrays)
    database, registry = Database(settings.database), Registry(settings.models, settings.watch, arrays)
    services = Services(settings, database, registry)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
        services.start()
        gc.freeze()  # a collection would look through the whole model
        yield
        services.stop()

    app = FastAPI(
        title="ocular", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=None, separate_input_output_schemas=False,
    )  # fmt: skip
    app.state.services = services
    for page in PAGES:
        app.include_router(page.router, include_in_schema=False)
    app.include_router(health.router, include_in_schema=False)
    app.include_router(api.router, prefix=API)
    app.include_router(api_new_rows.router, prefix=API)
    app.mount("/static", InMemoryStaticFiles(), name="static")
    for kind in (OcularError, HTTPException, RequestValidationError, IntegrityError):
        app.add_exception_handler(kind, _refuse)
    app.add_middleware(GZipMiddleware, compresslevel=COMPRESSION)
    app.add_middleware(Guard, settings=settings, refuse=_refuse, fail=_fail, check_upload=_check_upload)
    return app


async def _check_upload(request: Request) -> None:
    """Raise unless the request is of somebody who may send files; which files, the route checks."""
    visitor = await run_in_threadpool(visitor_by_session, request, request.app.state.services)
    AllowedBySession(*LEADERS).check(request, visitor)


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer with one line and a status: JSON for programs, a page for people, who are sent to the sign-in first."""
    status, line = 400, str(error)
    if isinstance(error, RefusedError):
        status = error.status
    elif isinstance(error, DatabaseError):
        status, line = 503, UNAVAILABLE
    elif isinstance(error, IntegrityError):
        status, line = 409, "Someone else just changed this; reload and try again"
    elif isinstance(error, UnknownNameError):
        status, line = 404, "Client or product not found"  # the nearest names may be other people's clients
    elif isinstance(error, HTTPException):
        status, line = error.status_code, NO_ROUTE.get(error.status_code, str(error.detail))
    elif isinstance(error, RequestValidationError):
        status = 422
        line = "; ".join(f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors())
    if status in (403, 404) and not isinstance(error, StaleFormError | HTTPException):
        await run_in_threadpool(_audit_refusal, request, status)
    headers = {"Retry-After": "5"} if status == 503 else dict(getattr(error, "headers", None) or {})
    if request.url.path.startswith(API):
        headers |= {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return JSONResponse({"error": line}, status, headers=headers)
    gives_feedback = (request.method, request.url.path) == ("POST", "/feedback")
    if isinstance(error, SignInError):
        if gives_feedback:
            line = "Session expired; your text is saved. Sign in to continue."
            draft = await read_draft(request)
            return render(request, "sign_in.html", {"then": "/", "line": line, "draft": draft}, status_code=401)
        path = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        return RedirectResponse(f"/sign-in?next={quote(path)}" if request.method == "GET" else "/sign-in", 303)
    visitor = await _visitor(request, status)
    if gives_feedback and isinstance(error, RETRYABLE):
        line = "This page expired; your text is still here" if isinstance(error, StaleFormError) else line
        return render_draft(request, visitor, await read_draft(request), line, status_code=status, headers=headers)
    values = {"status": status, "line": line, "visitor": visitor}
    return render(request, "refusal.html", values, status_code=status, headers=headers)


def _audit_refusal(request: Request, status: int) -> None:
    """Write down what somebody asked for and may not have; they learn nothing, so that a busy database is no error."""
    visitor: Visitor | None = getattr(request.state, "visitor", None)
    if visitor is not None:
        asked = f"{request.method} {unquote_plus(str(request.url).partition(request.url.netloc)[2])}"[:LABEL]
        with suppress(OcularError):
            log: ViewLog = request.app.state.services.view_log
            log.write(visitor.user.name, "refused", f"{status}: {asked}", visitor.address, visitor.token)


async def _visitor(request: Request, status: int) -> Visitor | None:
    """Return whose navigation a refusal shows; no route has asked for the visitor of an unknown address."""
    visitor: Visitor | None = getattr(request.state, "visitor", None)
    if visitor is None and status < 500:
        with suppress(OcularError):
            visitor = await run_in_threadpool(visitor_by_session, request, request.app.state.services)
    return visitor


async def _fail(request: Request, _error: Exception) -> Response:
    line = "Something went wrong on our side; it has been logged"
    if request.url.path.startswith(API):
        return JSONResponse({"error": line}, 500)
    return render(request, "refusal.html", {"status": 500, "line": line}, status_code=500)
