"""ocular calibrate: hit rates for a saved model."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Measure the hit rates of a saved model.")
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
def calibrate(model: Path) -> None:
    """
    Measure how often recommendations of MODEL are bought, and save it with these hit rates.

    A second model is fitted without a quarter of the purchases, which are in the folder. Until the new one is complete
    the old one stays.
    """
    from ocular.cli.fit import calibration_line
    from ocular.cli.present import Interrupted
    from ocular.evaluation.calibration import calibrate as measure_hit_rates
    from ocular.model import load

    fitted = load(model)
    try:
        measure_hit_rates(fitted)
    except KeyboardInterrupt:
        raise Interrupted(f"{model} is as it was") from None
    fitted.save(model)
    click.echo(calibration_line(fitted))
