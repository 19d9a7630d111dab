"""ocular refresh, promote and rollback: a new model every night, and which one is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

REFUSED_CODE = 3


@click.command(short_help="Make a new model and serve it if it passes.")
@click.argument("settings_file", metavar="SETTINGS", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Do everything but saving, promoting and removing.")
@click.option("--from-scratch", is_flag=True, help="Do not go on from the served model; runs also if nothing changed.")
@click.option(
    "--summary", "summary_file", type=click.Path(path_type=Path), help="File to write the summary to as well."
)
def refresh(settings_file: Path, dry_run: bool, from_scratch: bool, summary_file: Path | None) -> None:
    """
    Read purchases, check them, fit, calibrate, compare with the served model, and promote or refuse.

    SETTINGS is a TOML file with the sections source, columns, model, gates and keep: see docs/refresh.md.

    \b
    ocular refresh /etc/ocular/refresh.toml
    ocular refresh refresh.toml --dry-run
    ocular refresh refresh.toml --summary last-run.json

    The summary is printed as JSON, notes go to standard error. The exit code is 0 if a model was promoted or nothing
    has changed, 3 if a gate refused, 2 if something is wrong with the settings, the source or the folder. Whatever
    happens, the served model stays until a new one is whole, calibrated and promoted.
    """
    from ocular.cli.present import Interrupted
    from ocular.errors import OcularError
    from ocular.refresh.pipeline import refresh as run_refresh
    from ocular.refresh.settings import read_settings
    from ocular.refresh.summary import REFUSED
    from ocular.storage import check_writable

    try:
        if summary_file is not None:
            check_writable(summary_file)  # now, not after the promotion
        settings = read_settings(settings_file)
        summary = run_refresh(settings, dry_run=dry_run, from_scratch=from_scratch, say=_note)
    except (OcularError, OSError) as error:
        _deliver({"status": "failed", "reason": str(error)}, summary_file)
        click.echo(f"Error: {error}", err=True)  # as in Python: the file has no options
        raise click.exceptions.Exit(2) from None
    except KeyboardInterrupt:
        raise Interrupted("the served model stays; the next run goes on from the checkpoint of this one") from None
    _deliver(summary.to_dict(), summary_file)
    if summary.status == REFUSED:
        click.echo(f"refused: {summary.reason}", err=True)
        raise click.exceptions.Exit(REFUSED_CODE)


@click.command(short_help="Serve this model from now on.")
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
@click.option("--uncalibrated", is_flag=True, help="Also a model without hit rates.")
def promote(model: Path, uncalibrated: bool) -> None:
    """
    Serve MODEL, a folder among the models of the application, from now on.

    The first promotion writes promoted.json beside the models. From then on the application serves what is promoted
    there, and no longer the newest.
    """
    from ocular.refresh.by_hand import promote as promote_by_hand

    before = promote_by_hand(model, uncalibrated=uncalibrated)
    click.echo(f"promoted {model.name}" + ("" if before in (None, model.name) else f" in place of {before}"))


@click.command(short_help="Serve the model before the present one again.")
@click.argument("models", metavar="MODELS", type=click.Path(path_type=Path, file_okay=False))
def rollback(models: Path) -> None:
    """
    Serve the model that was promoted before the present one.

    MODELS is the folder of the models. `ocular refresh` does not make the model again that was rolled back, until the
    purchases or the settings have changed.
    """
    from ocular.refresh.by_hand import rollback as rollback_by_hand

    withdrawn, served = rollback_by_hand(models)
    click.echo(f"rolled back from {withdrawn} to {served}")


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _deliver(summary: dict[str, Any], file: Path | None) -> None:
    from ocular.storage import write_file

    text = json.dumps(summary, indent=2, ensure_ascii=False)
    click.echo(text)
    if file is not None:
        write_file(file, lambda out: out.write(f"{text}\n".encode()))
