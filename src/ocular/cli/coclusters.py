"""ocular coclusters: the groups of clients and products that a model found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocular.cli.present import Row, deliver, format_option, render

if TYPE_CHECKING:
    from ocular.explain.coclusters import CoCluster
    from ocular.model import OCuLaR


@click.command(short_help="Show the co-clusters of a model.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--number", type=int, metavar="C", help="Show one co-cluster with all its members.")
@click.option(
    "--probability",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="P",
    help="Minimum probability that a co-cluster alone gives its members for its typical product or client.  "
    "[default: 0.2, less where it is weak]",
)
@click.option("--hide-clients", is_flag=True, help="With --format html: name no client.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write instead of printing.")
@format_option("table", "json", "csv", "html")
def coclusters(
    model: Path, number: int | None, probability: float | None, hide_clients: bool, output: Path | None, form: str
) -> None:
    """
    Show the co-clusters in the model folder MODEL, those that explain most purchases first.

    \b
    ocular coclusters model
    ocular coclusters model --number 3 --format csv -o pattern.csv
    ocular coclusters model --format html -o report.html

    \b
    density   share of its client-product pairs that were bought
    strength  probability that it alone gives to a pair of typical members
    share     share of all purchases that it explains

    HTML is a report of the whole model on one self-contained page, with pictures; it needs the extra [plots].
    """
    from ocular.errors import ConfigError, UnknownNameError
    from ocular.model import load

    if number is not None and form == "html":
        raise ConfigError("expected --format table, json or csv with --number; the HTML report shows all co-clusters")
    fitted = load(model)
    patterns = fitted.coclusters(probability)
    if number is not None:
        chosen = next((cocluster for cocluster in patterns if cocluster.index == number), None)
        if chosen is None:
            raise UnknownNameError(f"no co-cluster {number} with members; ocular coclusters {model} lists all of them")
        deliver(render(_member_rows(fitted, chosen), form), output)
        return
    if form == "html":
        from ocular.report import model_report

        deliver(model_report(fitted, patterns, show_clients=not hide_clients), output)
        return
    ordered = sorted(patterns, key=lambda cocluster: -cocluster.share)
    text = render([_row(cocluster) for cocluster in ordered], form)
    if form == "table":
        members = fitted.members(probability)
        text += (
            f"\n\nA client is in {members.per_user.mean():.1f} co-clusters on average, a product in "
            f"{members.per_item.mean():.1f}; {(members.per_user == 0).sum():,} clients and "
            f"{(members.per_item == 0).sum():,} products are in none."
        )
    deliver(text, output)


def _row(cocluster: CoCluster) -> Row:
    return {
        "number": cocluster.index,
        "label": cocluster.label,
        "clients": len(cocluster.users),
        "products": len(cocluster.items),
        "density": round(cocluster.density, 4),
        "strength": round(cocluster.strength, 4),
        "share": round(cocluster.share, 4),
        "overlaps": " ".join(str(overlap.cocluster) for overlap in cocluster.overlaps[:3]),
    }


def _member_rows(model: OCuLaR, cocluster: CoCluster) -> list[Row]:
    sides = (
        ("product", model.interactions_.item_name, cocluster.items, cocluster.item_strengths),
        ("client", model.interactions_.user_name, cocluster.users, cocluster.user_strengths),
    )
    return [
        {"kind": kind, "name": name(row), "strength": round(float(strength), 4)}
        for kind, name, rows, strengths in sides
        for row, strength in zip(rows, strengths, strict=True)
    ]
