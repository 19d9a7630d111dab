"""ocular users: who may sign in to the application."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import click

from ocular.cli.present import deliver, format_option, render
from ocular.cli.serve import database_option, need_web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session


@click.group(short_help="Who may sign in: add, list, password, lock, unlock.")
def users() -> None:
    """
    Who may sign in to the application.

    \b
    ocular users add maria --role manager --team north
    ocular users list
    """


@users.command(short_help="Let somebody sign in.")
@click.argument("name")
@click.option("--role", type=click.Choice(["seller", "manager", "admin"]), required=True)
@click.option("--team", default="", help="Managers see the clients of sellers of their own team.")
@click.option("--full-name", default="")
@click.option("--password-file", type=click.File(), help="Read the password from a file, '-' for standard input.")
@database_option
def add(name: str, role: str, team: str, full_name: str, password_file: IO[str] | None, db: str) -> None:
    """
    Let NAME sign in; the password is asked for.

    \b
    ocular users add maria --role manager --team north
    """
    with _transaction(db) as transaction:
        from ocular.web.people import add_user

        user = add_user(transaction, name, role, _password(password_file), full_name=full_name, team=team)
        told = f"{user.name} may sign in as {role}" + (f" of the team {team}" if team else "")
    click.echo(told)


@users.command(name="list", short_help="Everybody who may sign in.")
@format_option("table", "json", "csv")
@database_option
def list_users(form: str, db: str) -> None:
    """
    Everybody who may sign in.

    \b
    ocular users list --format csv
    """
    with _transaction(db) as transaction:
        from sqlalchemy import select

        from ocular.web.tables import User

        rows = [
            {
                "name": user.name,
                "full_name": user.full_name,
                "role": user.role,
                "team": user.team,
                "active": user.active,
            }
            for user in transaction.scalars(select(User).order_by(User.name))
        ]
    deliver(render(rows, form), None)


@users.command(short_help="Set somebody's password.")
@click.argument("name")
@click.option("--password-file", type=click.File(), help="Read the password from a file, '-' for standard input.")
@database_option
def password(name: str, password_file: IO[str] | None, db: str) -> None:
    """
    Set a new password for NAME, who is signed out everywhere.

    \b
    ocular users password maria
    """
    with _transaction(db) as transaction:
        from ocular.web.people import find_user, set_password

        set_password(transaction, find_user(transaction, name), _password(password_file))
    click.echo(f"{name} has a new password")


def _switch(name: str, active: bool, db: str) -> None:
    with _transaction(db) as transaction:
        from ocular.web.people import find_user, set_active

        set_active(transaction, find_user(transaction, name), active)
    click.echo(f"{name} may {'' if active else 'not '}sign in")


@users.command(short_help="Keep somebody from signing in.")
@click.argument("name")
@database_option
def lock(name: str, db: str) -> None:
    """Keep NAME from signing in, and end what they have open."""
    _switch(name, False, db)


@users.command(short_help="Let somebody sign in again.")
@click.argument("name")
@database_option
def unlock(name: str, db: str) -> None:
    """Let NAME sign in again."""
    _switch(name, True, db)


@contextmanager
def _transaction(db: str) -> Iterator[Session]:
    need_web()
    from ocular.web.database import Database

    database = Database(db)
    database.upgrade()
    with database.writing() as transaction:
        yield transaction
    database.close()


def _password(file: IO[str] | None) -> str:
    if file is not None:
        return str(file.read()).rstrip("\r\n")
    if not sys.stdin.isatty():
        raise click.UsageError("expected a terminal to ask for the password, got none; give --password-file")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
