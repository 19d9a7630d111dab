"""The command line: each file parses, calls the library and presents what comes back."""

from __future__ import annotations

import logging
import sys

import click

from ocular.cli.audit import audit
from ocular.cli.calibrate import calibrate
from ocular.cli.coclusters import coclusters
from ocular.cli.demo import demo
from ocular.cli.diff import diff
from ocular.cli.due import due
from ocular.cli.evaluate import evaluate
from ocular.cli.explain import explain
from ocular.cli.fit import fit
from ocular.cli.present import Interrupted, Notes, phrase
from ocular.cli.recommend import recommend
from ocular.cli.refresh import promote, refresh, rollback
from ocular.cli.search import search
from ocular.cli.serve import serve
from ocular.cli.synth import synth
from ocular.cli.users import users
from ocular.errors import OcularError
from ocular.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ocular", message="%(prog)s %(version)s")
def cli() -> None:
    """
    Recommend products to clients, and say why.

    \b
    Try it:     ocular demo
    Your data:  ocular fit purchases.csv --client company --product sku --price amount -o model
                ocular recommend model --client "Acme Ltd"
    """


COMMANDS = (
    fit, recommend, explain, due, coclusters, diff, evaluate, search, calibrate, refresh, promote, rollback, synth,
    demo, serve, users, audit,
)  # fmt: skip
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """
    Run the command line.

    Every error that a user can correct is one line and exit code 2; Ctrl-C is one line and exit code 130.
    """
    notes = logging.getLogger("ocular")
    notes.setLevel(logging.INFO)
    notes.handlers = [Notes()]
    try:
        code = cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except OcularError as error:
        click.echo(f"Error: {phrase(error)}", err=True)
        code = 2
    except (Interrupted, click.Abort) as stop:  # click makes an Abort of Ctrl-C
        click.echo(f"Interrupted: {str(stop) or 'the command did not finish'}", err=True)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
