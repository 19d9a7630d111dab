"""ocular demo: from purchases to recommendations with reasons on a made-up sample, and the application on top of it."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.fit import calibration_line, fit_and_report
from ocular.cli.present import Row, deliver, render
from ocular.cli.recommend import recommendation_row, short_row
from ocular.cli.serve import need_web

if TYPE_CHECKING:
    from ocular.advisor import Advisor
    from ocular.model import OCuLaR
    from ocular.synthetic.showcase import Showcase

# fixed: the README shows what comes out
PARAMETERS: dict[str, Any] = {
    "n_coclusters": 9, "regularization": 3.0, "links": 1.0, "peers": 0.5, "link_regularization": 100.0,
    "peer_regularization": 300.0, "random_state": 0,
}  # fmt: skip
HELD_OUT = 0.14  # of the purchases, for the back-test
FITS = {"first": 182, "second": 35, "latest": 0}  # models, each fitted to the purchases up to so many days ago
TEST_SHARE, BACKTEST_DAYS, N_MEASURED = 0.25, 91, 10  # held out when methods are compared; recommendations per client
NIGHT = 6  # hours that the fits of a day are old in the morning
EXAMPLES = 3  # clients whose recommendations are printed


@click.command(short_help="Fit a made-up sample and show recommendations with their reasons.")
@click.option(
    "-o", "--output", default="demo", show_default=True, type=click.Path(path_type=Path), help="Folder for the results."
)
@click.option("--serve", "serves", is_flag=True, help="Serve the application on this machine afterwards.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port of the application.")
def demo(output: Path, serves: bool, port: int) -> None:
    """
    Fit a made-up sample (480 companies, 104 products, two years) and show recommendations with reasons.

    \b
    ocular demo -o demo
    ocular demo --serve
    """
    if serves:
        need_web()
    from ocular.advisor import Advisor
    from ocular.synthetic.showcase import showcase

    sample = showcase()
    interactions = sample.interactions
    shape = f"{interactions.n_users:,} clients × {interactions.n_items:,} products, {interactions.nnz:,} pairs bought"
    click.echo(f"Sample: {shape}, up to today")
    click.echo("Fitting. The first fit on a machine compiles its kernels, which takes some seconds.")
    model = fit_models(sample, output / "models")

    advisor = Advisor(model)
    for client in example_clients(model, sample):
        click.echo(f"\n── {client} " + "─" * 40)
        click.echo(render(_rows(advisor, client), "table"))
        click.echo(f"\n{advisor.recommend(client, 1)[0].text()}")
    _write_reports(advisor, sample.hero[0], output)
    latest = output / "models" / "latest"
    click.echo(f"\nThe model is in {latest}. Go on with:")
    program = "ocular" if shutil.which("ocular") else sys.argv[0]
    click.echo(f'  {program} explain {latest} --client "{sample.hero[0]}" -n 3')
    click.echo(f'  {program} due {latest} --client "{sample.hero[0]}"')
    click.echo(f"  {program} diff {output / 'models' / 'second'} {latest}")
    if serves:
        measure(sample, output / "models")
        _serve(output, port)


def fit_models(sample: Showcase, folder: Path) -> OCuLaR:
    """Fit and save the first model and two refits, each with the day it stands for; return the latest."""
    from ocular.artifact import redate
    from ocular.model import OCuLaR
    from ocular.synthetic.showcase import earlier

    model = None
    for name, days in FITS.items():
        interactions = earlier(sample.interactions, days) if days else sample.interactions
        model = fit_and_report(partial(OCuLaR(**PARAMETERS).fit, interactions, start=model))
        model.calibrate(share=HELD_OUT)
        model.save(folder / name)
        redate(folder / name, datetime.now(UTC) - timedelta(days=days, hours=NIGHT))
    assert model is not None  # noqa: S101  there are three
    click.echo(calibration_line(model))
    return model


def measure(sample: Showcase, folder: Path) -> None:
    """Compare the accuracy with simpler methods, on a random part of the purchases and by date, for the application."""
    from ocular.evaluation.protocol import Method, backtest, compare
    from ocular.evaluation.quality import record_of, save_quality

    interactions = sample.interactions
    own = {name: value for name, value in PARAMETERS.items() if name != "random_state"}
    methods = [Method("evidence", [own]), Method("user-knn"), Method("popularity")]
    shared: dict[str, Any] = {"tune": "none", "metric": "recall", "M": N_MEASURED, "random_state": 0}
    purchases: Any = interactions.purchases
    date = str(purchases.time.max().astype("datetime64[D]") - BACKTEST_DAYS)
    at_random = compare(interactions, methods, instances=1, test_share=TEST_SHARE, **shared)
    by_date = backtest(interactions, date, methods, **shared)
    for comparison, held_out, day in ((at_random, TEST_SHARE, None), (by_date, None, date)):
        record = record_of(comparison.rows(), "recall", N_MEASURED, "none", held_out, day)
        save_quality(folder, interactions.fingerprint(), record)


def example_clients(model: OCuLaR, sample: Showcase) -> list[str]:
    """Return the client that opens the demo, then the surest recommendation of other industries."""
    interactions = model.interactions_
    industries = interactions.user_attributes["industry"]
    _, confidences = model.recommend(range(interactions.n_users), N=1)
    chosen = [interactions.user_rows[sample.hero[0]]]
    for user in (-confidences[:, 0]).argsort(kind="stable").tolist():
        if len(chosen) < EXAMPLES and industries[user] not in {industries[other] for other in chosen}:
            chosen.append(user)
    return [str(interactions.user_labels[user]) for user in chosen]


def _serve(folder: Path, port: int) -> None:
    """Serve with people of all roles, whose passwords are new for every run and shown once."""
    from ocular.web import demo as scene
    from ocular.web.server import run
    from ocular.web.settings import Names, Settings

    database = f"sqlite:///{folder / 'demo.db'}"
    people = scene.prepare(database, folder / "models")
    click.echo("\nSign in as one of these (the passwords are for this run):")
    click.echo(render([person._asdict() for person in people], "table"))
    click.echo(
        "Here everybody reads the names of all clients; `ocular serve` shows those of one's own team, see --names."
    )
    settings = Settings(folder / "models", database, names=Names.EVERYBODY, secure=False)

    def invite(site: str) -> None:
        who, link = scene.open_link(database, site)
        click.echo(f"\nOpen {link}\nto be signed in as {who}; the link works once, on this machine, within an hour.\n")

    run(settings, "127.0.0.1", port, click.echo, ready=invite)


def _rows(advisor: Advisor, client: str) -> list[Row]:
    rows = [recommendation_row(rank, each) for rank, each in enumerate(advisor.recommend(client), 1)]
    return [{name: value for name, value in short_row(row).items() if not name.startswith("client")} for row in rows]


def _write_reports(advisor: Advisor, client: str, folder: Path) -> None:
    from ocular.errors import MissingExtraError

    model: OCuLaR = advisor.model
    try:
        from ocular.report import client_report, model_report
    except MissingExtraError as error:
        click.echo(f"\nnote: no reports with pictures ({error})", err=True)
        return
    click.echo()
    deliver(client_report(advisor, client, advisor.recommend(client)), folder / "client.html")
    deliver(model_report(model, model.coclusters()), folder / "report.html")
