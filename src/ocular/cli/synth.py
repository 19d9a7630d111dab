"""ocular synth: purchases from a made-up vendor."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Make up purchases with known buying patterns.")
@click.option("--clients", default=2000, show_default=True, help="Number of client companies.")
@click.option("--products", default=300, show_default=True, help="Number of products.")
@click.option("--patterns", type=int, help="Number of buying patterns; grows with the products by default.")
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder to write to.")
def synth(clients: int, products: int, patterns: int | None, seed: int, output: Path) -> None:
    """
    Make up the sales of an information technology vendor to companies of many industries.

    \b
    ocular synth --clients 2000 --products 300 -o market
    ocular fit market/purchases.parquet --client client --product product --price price -o model

    Writes purchases.parquet (client, product, price, quantity, date, seller, industry, …) and coclusters.parquet, the
    buying patterns that it was made from.
    """
    from ocular.synthetic.market import b2b, write

    made = b2b(clients, products, n_patterns=patterns, random_state=seed)
    write(made, output)
    interactions = made.interactions
    n_purchases = 0 if interactions.purchases is None else len(interactions.purchases)
    click.echo(
        f"wrote {n_purchases:,} purchases of {interactions.n_users:,} clients × {interactions.n_items:,} products "
        f"({interactions.nnz:,} pairs, {len(made.patterns)} patterns) to {output}"
    )
