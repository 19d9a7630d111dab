"""The providers of the tests: the certified one on Node, and one in Python that issues whatever it is told to."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import RSAKey

from ocular.web.sso.settings import SsoSettings

HERE = Path(__file__).parent
MODULES = HERE.parents[1] / ".tools" / "oidc"
SECRET = "a secret of the tests"
SITE = "https://testserver"
ROLES = {"admins": "admin", "leads": "manager", "sales": "seller"}

needs_provider = pytest.mark.skipif(
    (shutil.which("node") is None or not (MODULES / "node_modules").is_dir()) and os.environ.get("CI") != "true",
    reason="needs Node and the package oidc-provider: scripts/setup-oidc",
)


def sso_settings(issuer: str, **changes: Any) -> SsoSettings:
    usual = {
        "client_id": "ocular", "client_secret": SECRET, "site": SITE, "roles": ROLES, "teams": {"north": "North"},
        "break_glass": "root",
    }  # fmt: skip
    return SsoSettings(issuer, **usual | changes)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class NodeProvider:
    """`oidc-provider` as a process of its own."""

    def __init__(self, origin: str = SITE, port: int | None = None) -> None:
        self.port = port or free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            ["node", str(HERE / "oidc" / "provider.mjs"), str(self.port), origin],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"OIDC_MODULES": str(MODULES)},
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == self.issuer

    def control(self, **change: Any) -> None:
        body = json.dumps(change).encode()
        urllib.request.urlopen(urllib.request.Request(self.issuer, body, method="PUT"), timeout=30).close()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Forger:
    """A provider whose next token a test writes itself."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.published = [self.key.as_dict(private=False)]
        self.answer: dict[str, Any] = {}
        self.requests: list[str] = []
        self.filler = 0  # bytes that the discovery document has too many
        self.sent: dict[str, list[str]] = {}

    def sign(self, claims: dict[str, Any], *, key: Any = None, **header: Any) -> str:
        given = {"alg": "RS256", "kid": "one"} | header
        present = {name: value for name, value in given.items() if value is not None}
        return jws.serialize_compact(present, json.dumps(claims), key or self.key, algorithms=["RS256", "PS256"])

    def document(self, path: str) -> dict[str, Any]:
        if path == "/jwks":
            return {"keys": self.published}
        if path == "/token":
            return self.answer
        return {
            "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/auth", "jwks_uri": f"{self.issuer}/jwks",
            "token_endpoint": f"{self.issuer}/token", "filler": "x" * self.filler,
        }  # fmt: skip


def unsigned(claims: dict[str, Any]) -> str:
    """A token with the algorithm none."""
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


@contextmanager
def forging() -> Iterator[Forger]:
    forger = Forger()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            forger.requests.append(path)
            body = json.dumps(forger.document(path)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            forger.sent = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        forger.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield forger
        server.shutdown()
