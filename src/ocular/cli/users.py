"""ocular users: who may sign in to the application."""

from __future__ import annotations

import getpass
import os
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import click

from ocular.cli.present import deliver, format_option, render
from ocular.cli.serve import database_option, need_web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.orm import Session

    from ocular.web.database import Database


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
    need_web()
    from ocular.web.users import add_user

    secret = _password(password_file)  # before the transaction: nobody else could write while somebody types
    with writing(db) as (transaction, log):
        user = add_user(transaction, name, role, secret, full_name=full_name, team=team)
        log("user added", f"{user.name} ({role})")
        team = f" of the team {user.team}" if user.team else ""
        name = user.name
    click.echo(f"{name} may sign in as {role}{team}")


@users.command(name="list", short_help="Everybody who may sign in.")
@format_option("table", "json", "csv")
@database_option
def list_users(form: str, db: str) -> None:
    """
    Everybody who may sign in.

    \b
    ocular users list --format csv
    """
    need_web()
    from sqlalchemy import select

    from ocular.web.tables import User

    with open_database(db) as database, database.reading() as transaction:
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
    Set a new password for NAME, who is signed out everywhere; tokens that act as NAME end.

    \b
    ocular users password maria
    """
    need_web()
    from ocular.web.users import find_user, set_password

    with open_database(db) as database, database.reading() as reading:
        find_user(reading, name)  # so that nobody types a password in vain
    secret = _password(password_file)
    with writing(db) as (transaction, log):
        user = find_user(transaction, name)
        set_password(transaction, user, secret)
        log("password set", user.name)
    click.echo(f"{name} has a new password")


def _set_active(name: str, active: bool, db: str) -> None:
    need_web()
    from ocular.web.users import find_user, set_active

    with writing(db) as (transaction, log):
        user = find_user(transaction, name)
        set_active(transaction, user, active)
        log("user activated" if active else "user locked", user.name)
    click.echo(f"{name} may {'' if active else 'not '}sign in")


@users.command(short_help="Keep somebody from signing in.")
@click.argument("name")
@database_option
def lock(name: str, db: str) -> None:
    """Keep NAME from signing in, and end what they have open."""
    _set_active(name, False, db)


@users.command(short_help="Let somebody sign in again.")
@click.argument("name")
@database_option
def unlock(name: str, db: str) -> None:
    """Let NAME sign in again."""
    _set_active(name, True, db)


@contextmanager
def open_database(db: str) -> Iterator[Database]:
    """Open a database, with its tables up to date."""
    from ocular.web.database import Database

    database = Database(db)
    try:
        database.upgrade()
        yield database
    finally:
        database.close()


@contextmanager
def writing(db: str) -> Iterator[tuple[Session, Callable[[str, str], None]]]:
    """Open a transaction; yield it and a function that writes an action and its subject into the audit log."""
    from ocular.web.audit import audit

    with open_database(db) as database, database.writing() as transaction:
        yield transaction, lambda action, subject: audit(transaction, actor(), action, subject)


def actor() -> str:
    """Return who runs the command, by the system's user id: the environment says what its owner likes."""
    try:
        import pwd
    except ImportError:  # Windows has no such ids
        return f"cli:{getpass.getuser()}"
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:  # as in a container
        return f"cli:uid {os.getuid()}"


def _password(file: IO[str] | None) -> str:
    if file is not None:
        return str(file.read()).rstrip("\r\n")
    if not sys.stdin.isatty():
        raise click.UsageError("expected a terminal to ask for the password, got none; give --password-file")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
