"""The settings of the application."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from ocular.web.sso.settings import SsoSettings


class Names(StrEnum):
    """Who reads the names of other clients in a rationale."""

    EVERYBODY = "everybody"
    TEAM = "team"  # those of clients of one's own team
    NOBODY = "nobody"


LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names of this machine
ANY_HOST = "*"


@dataclass(frozen=True)
class Settings:
    """How the application is run; the command line fills it in."""

    models: Path  # a folder of models, or one model
    database: str = "sqlite:///ocular.db"
    names: Names = Names.TEAM
    secure: bool = True  # cookies only over TLS; False only on one's own machine
    lifetime: timedelta = timedelta(hours=12)  # of a session
    idle: timedelta = timedelta(hours=2)  # without a request, after which a session ends
    watch: float = 5.0  # seconds between two checks for a new model
    max_upload: int = 16_000_000  # bytes of a file with assignments
    max_body: int = 128_000  # bytes of any other request
    arrays: Path | None = None  # where workers share the arrays of models; None for a single process
    allowed_hosts: tuple[str, ...] = LOOPBACK  # names that the site is reached by; ANY_HOST allows all
    sso: SsoSettings | None = None  # single sign-on
