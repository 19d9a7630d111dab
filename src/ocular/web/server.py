"""The server: the application on a socket of this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from ocular.errors import ConfigError
from ocular.web.app import create_app
from ocular.web.logs import configure_logs
from ocular.web.settings import Settings
from ocular.web.workers import run_workers

BACKLOG = 1024  # connections that wait to be accepted


def run(
    settings: Settings,
    host: str,
    port: int,
    echo: Callable[[str], object],
    ready: Callable[[str], object] | None = None,
    workers: int = 1,
) -> None:
    """Serve until Ctrl-C; port 0 is any free one. `ready` is called with the site's address once it can be opened."""
    listening = listen(host, port)
    with listening:
        address = f"[{host}]" if ":" in host else host
        site = f"http://{address}:{listening.getsockname()[1]}"

        def tell() -> None:
            if ready is not None:
                ready(site)
            echo(f"Serving on {site}; Ctrl-C stops it.")

        if workers == 1:
            serve_on(settings, listening, tell)
        else:
            run_workers(settings, listening, workers, serve_on, tell)


def serve_on(settings: Settings, listening: socket.socket, ready: Callable[[], object]) -> None:
    """Serve on a socket in this process, until it is told to stop; `ready` is called when the model is loaded."""
    app = create_app(settings)
    configure_logs()
    app.state.services.start()  # an error must come before "Serving"
    ready()
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, timeout_keep_alive=75)
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """
    Return a socket that listens; port 0 is any free one.

    It is made as one of TCP, not as `socket.create_server` makes it: only then does asyncio send what is written at
    once. Otherwise an answer on a connection that is kept alive waits 40 ms for the browser's acknowledgement.
    """
    listening = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"expected to listen on {host} port {port}, got {error.strerror or error}; give another --port or --host"
        ) from None
    return listening
