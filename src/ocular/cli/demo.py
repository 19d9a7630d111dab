"""ocular demo: from purchases to recommendations with reasons on the embedded sample, in a few seconds."""

from __future__ import annotations

import shutil
import sys
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocular.cli.fit import fit_and_report, save_and_calibrate
from ocular.cli.present import Row, deliver, render
from ocular.cli.recommend import recommendation_row, short_row
from ocular.cli.serve import need_web

if TYPE_CHECKING:
    from ocular.advisor import Advisor
    from ocular.model import OCuLaR

COCLUSTERS, REGULARIZATION = 12, 30.0
LINKS, PEERS, LINK_REGULARIZATION = 1.0, 1.0, 100.0  # fixed: the README shows what comes out
BESTSELLER_SHARE = 0.2  # of the clients: a product that more of them own makes no good example


@click.command(short_help="Fit the embedded sample and show recommendations with their reasons.")
@click.option(
    "-o", "--output", default="demo", show_default=True, type=click.Path(path_type=Path), help="Folder for the results."
)
@click.option("--serve", "serves", is_flag=True, help="Serve the application on this machine afterwards.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port of the application.")
def demo(output: Path, serves: bool, port: int) -> None:
    """
    Fit the embedded sample (800 made-up companies, 120 products) and show recommendations with reasons.

    \b
    ocular demo -o demo
    ocular demo --serve
    """
    if serves:
        need_web()
    from ocular.advisor import Advisor
    from ocular.data.readers import read
    from ocular.model import OCuLaR

    # written by: ocular synth --clients 800 --products 120 --seed 1
    with as_file(files("ocular") / "data" / "sample.parquet") as sample:
        interactions = read(
            sample, client="client", product="product", price="price", quantity="quantity", time="date",
            client_attributes=["industry", "country", "size", "seller"], product_attributes=["family", "list_price"],
            currency="€",
        )  # fmt: skip
    shape = f"{interactions.n_users:,} clients × {interactions.n_items:,} products, {interactions.nnz:,} pairs bought"
    click.echo(f"Sample: {shape}")
    click.echo("Fitting. The first fit on a machine compiles its kernels, which takes some seconds.")
    weights: dict[str, Any] = {"links": LINKS, "peers": PEERS, "link_regularization": LINK_REGULARIZATION}
    model = OCuLaR(COCLUSTERS, REGULARIZATION, **weights, random_state=0)
    fit_and_report(lambda: model.fit(interactions))
    save_and_calibrate(model, output / "model")

    # clear examples: no bestsellers, and clients with several purchases
    bestsellers = (interactions.by_item.degrees > BESTSELLER_SHARE * interactions.n_users).nonzero()[0]
    products, confidences = model.recommend(range(interactions.n_users), N=1, filter_items=bestsellers)
    users = (-confidences[:, 0] * (interactions.by_user.degrees >= 8)).argsort(kind="stable")[:3].tolist()
    advisor = Advisor(model)
    for user in users:
        click.echo(f"\n── {interactions.user_name(user)} " + "─" * 40)
        click.echo(render(_rows(advisor, interactions.user_labels[user]), "table"))
        click.echo(f"\n{model.explain(user, int(products[user, 0])).text()}")
    name = interactions.user_labels[users[0]]
    _write_reports(advisor, name, output)
    click.echo(f"\nThe model is in {output / 'model'}. Go on with:")
    program = "ocular" if shutil.which("ocular") else sys.argv[0]
    click.echo(f'  {program} explain {output / "model"} --client "{name}" -n 3')
    click.echo(f"  {program} coclusters {output / 'model'}")
    if serves:
        _serve(model, output, port)


def _serve(model: OCuLaR, folder: Path, port: int) -> None:
    """Serve with three users, whose passwords are new for every run and shown once."""
    from ocular.web import demo as scene
    from ocular.web.server import run
    from ocular.web.settings import Names, Settings

    database = f"sqlite:///{folder / 'ocular.db'}"
    people = scene.prepare(database, model.interactions_)
    click.echo("\nSign in as one of these (the passwords are for this run):")
    click.echo(render([{"name": name, "password": password, "sees": sees} for name, password, sees in people], "table"))
    click.echo(
        "Here everybody reads the names of all clients; `ocular serve` shows those of one's own team, see --names."
    )
    settings = Settings(folder / "model", database, names=Names.EVERYBODY, secure=False)
    run(settings, "127.0.0.1", port, click.echo)


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
