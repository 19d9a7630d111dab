"""ocular serve: the application for people who sell."""

from __future__ import annotations

from pathlib import Path

import click

from ocular.web.settings import LOOPBACK, Names, Settings

database_option = click.option(
    "--db", default=Settings.database, show_default=True, envvar="OCULAR_DB", help="sqlite:///FILE or postgresql://…"
)


@click.command(short_help="Serve recommendations, reasons and prices to people who sell.")
@click.argument("models", type=click.Path(path_type=Path, exists=True, file_okay=False))
@database_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--names", type=click.Choice([str(name) for name in Names]), default=str(Settings.names), show_default=True,
    help="Who reads the names of other clients in a rationale.",
)  # fmt: skip
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, metavar="NAME", envvar="OCULAR_ALLOWED_HOST",
    help="Name that people reach the site by, repeatable; '*' allows all.  [default: this machine's own and --host]",
)  # fmt: skip
@click.option(
    "--sso", type=click.Path(path_type=Path, exists=True, dir_okay=False), envvar="OCULAR_SSO",
    help="Settings of single sign-on: a TOML file.",
)  # fmt: skip
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1, 64),
    help="Processes that answer; they share the model's arrays. About one per core.",
)  # fmt: skip
@click.option("--insecure", is_flag=True, help="Cookies without TLS: only on your own machine.")
def serve(
    models: Path, db: str, host: str, port: int, names: str, allowed_hosts: tuple[str, ...], sso: Path | None,
    workers: int, insecure: bool,
) -> None:  # fmt: skip
    """
    Serve the newest model in MODELS, a folder of models or one model. A newer one is picked up without a restart.

    \b
    ocular users add maria --role admin
    ocular serve models --db postgresql://ocular@localhost/ocular
    """
    need_web()
    from ocular.web.server import run
    from ocular.web.sso.settings import read_sso_settings

    settings = Settings(
        models, db, names=Names(names), secure=not insecure, allowed_hosts=(*LOOPBACK, host, *allowed_hosts),
        sso=None if sso is None else read_sso_settings(sso),
    )  # fmt: skip
    run(settings, host, port, click.echo, workers=workers)


def need_web() -> None:
    """Raise unless the packages of the application are installed."""
    from importlib.util import find_spec

    from ocular.errors import MissingExtraError

    missing = [
        name
        for name in ("fastapi", "sqlalchemy", "alembic", "argon2", "uvicorn", "itsdangerous", "pythonjsonlogger")
        if find_spec(name) is None
    ]
    if missing:
        raise MissingExtraError(f"the application needs {', '.join(missing)}; pip install 'ocular-rec[web]'")
