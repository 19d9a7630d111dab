"""ocular explain: the reasons for a recommendation."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ocular.cli.present import deliver, format_option


@click.command(short_help="Explain why a product is recommended to a client.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--client", required=True, metavar="NAME", help="Client to explain recommendations for.")
@click.option("--product", metavar="NAME", help="Product to explain.  [default: those recommended to the client]")
@click.option(
    "-n",
    "count",
    default=5,
    show_default=True,
    type=click.IntRange(min=1),
    help="Recommendations without --product.",
)
@click.option("--also", multiple=True, metavar="PRODUCT", help="Assume that the client also owns this; repeatable.")
@click.option("--hide-clients", is_flag=True, help="Name no other client.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write instead of printing.")
@format_option("text", "markdown", "json", "html")
def explain(
    model: Path,
    client: str,
    product: str | None,
    count: int,
    also: tuple[str, ...],
    hide_clients: bool,
    output: Path | None,
    form: str,
) -> None:
    """
    Explain recommendations of the model folder MODEL: purchases, similar clients, chance to buy, price benchmark.

    \b
    ocular explain model --client "Acme Ltd" --product "Router 200"
    ocular explain model --client "Acme Ltd" --also "Router 200" -n 3
    ocular explain model --client "Acme Ltd" --format html -o acme.html

    HTML is a report on the client in one self-contained page, with pictures; it needs the extra [plots].
    """
    from ocular.advisor import Advisor

    advisor = Advisor.load(model)
    if product is None:
        recommendations = [each for each in advisor.recommend(client, count, also=also) if each.explanation.reasons]
    else:
        recommendations = [advisor.explain(client, product, also=also)]
    show = not hide_clients
    if form == "html":
        from ocular.report import client_report

        deliver(client_report(advisor, client, recommendations, show_clients=show), output)
    elif form == "json":
        rows = [recommendation.to_dict(show_clients=show) for recommendation in recommendations]
        deliver(json.dumps(rows if product is None else rows[0], indent=2, ensure_ascii=False), output)
    elif not recommendations:
        deliver(f"The model has no reason to recommend anything to {client}.", output)
    elif form == "markdown":
        deliver("\n\n".join(each.explanation.to_markdown(show_clients=show) for each in recommendations), output)
    else:
        deliver("\n\n".join(each.explanation.text(show_clients=show) for each in recommendations), output)
