"""ocular audit: the log of who did what in the application."""

from __future__ import annotations

from datetime import datetime

import click

from ocular.cli.serve import database_option, need_web
from ocular.cli.users import writing


@click.group(short_help="The audit log of the application: prune.")
def audit() -> None:
    """
    The audit log of the application.

    \b
    ocular audit prune --before 2025-01-01
    """


@audit.command(short_help="Delete old entries of the audit log.")
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), required=True, help="Keep this day and what follows.")
@database_option
def prune(before: datetime, db: str) -> None:
    """
    Delete entries of the audit log and refused sign-ins from before a day; feedback stays.

    \b
    ocular audit prune --before 2025-01-01
    """
    need_web()
    from ocular.web import audit as audit_log

    with writing(db) as (transaction, log):
        n_deleted = audit_log.prune(transaction, before.date())
        log("audit pruned", f"{n_deleted:,} entries before {before:%Y-%m-%d}")
    click.echo(f"{n_deleted:,} entries before {before:%Y-%m-%d} deleted")
