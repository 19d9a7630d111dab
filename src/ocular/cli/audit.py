"""ocular audit: the log of who did what in the application."""

from __future__ import annotations

from datetime import datetime

import click

from ocular.cli.serve import database_option, need_web
from ocular.cli.users import actor, open_database


@click.group(short_help="The audit log of the application: verify, export, prune.")
def audit() -> None:
    """
    The audit log of the application.

    \b
    ocular audit verify
    ocular audit export --format syslog --since 2025-01-01
    ocular audit prune --before 2025-01-01
    """


@audit.command(short_help="Check that nothing in the audit log was changed or deleted.")
@click.option("--head", default="", help="A digest that an earlier run printed: it must still be in the log.")
@database_option
def verify(head: str, db: str) -> None:
    """
    Check the chain of the audit log: exit code 0 if it is whole, 1 with the first broken entry.

    \b
    ocular audit verify
    """
    need_web()
    from ocular.web import audit_chain

    with open_database(db) as database:
        found = audit_chain.verify(database, head.strip().lower())
    if found.fault:
        raise click.ClickException(f"the audit log is broken: {found.fault}")
    click.echo(f"{found.n_entries:,} entries, none changed or missing; head {found.digest or 'none'}")


@audit.command(short_help="Print the audit log for another system.")
@click.option("--format", "form", type=click.Choice(["jsonl", "syslog"]), default="jsonl", show_default=True)
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="From this day on (UTC).")
@database_option
def export(form: str, since: datetime | None, db: str) -> None:
    """
    Print the audit log, oldest first: JSON lines, or lines of syslog (RFC 5424).

    \b
    ocular audit export --format syslog --since 2025-01-01
    """
    need_web()
    from ocular.web.audit import AuditFilter
    from ocular.web.audit import audit as write
    from ocular.web.audit_export import FORMATS, exported_entries

    with open_database(db) as database:
        with database.writing() as transaction:
            write(transaction, actor(), "audit exported", form)
        for row in exported_entries(database, AuditFilter(since=None if since is None else since.date())):
            click.echo(FORMATS[form](row))


@audit.command(short_help="Delete old entries of the audit log.")
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), required=True, help="Keep this day and what follows.")
@database_option
def prune(before: datetime, db: str) -> None:
    """
    Delete entries of the audit log and refused sign-ins from before a day, at least 90 days ago; feedback stays.

    \b
    ocular audit prune --before 2025-01-01
    """
    need_web()
    from ocular.web import audit as audit_log

    with open_database(db) as database, database.writing() as transaction:
        n_deleted = audit_log.prune(transaction, before.date(), actor())
    click.echo(f"{n_deleted:,} entries before {before:%Y-%m-%d} deleted")
