"""The whitespace grid: what is owned, the best chance among the rest, and what the pipeline holds."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import httpx2
import numpy as np
import pytest
from sites import Browser, Site, label
from sqlalchemy import update

from ocular import Interactions, OCuLaR
from ocular.web.tables import Assignment, Feedback
from ocular.web.templating import percent
from ocular.web.whitespace import MAX_COLUMNS, fill_grid, find_columns

OpenSite = Callable[..., Site]


def grid_of(page: httpx2.Response) -> tuple[list[str], dict[str, list[str]]]:
    """The columns, and the cells of each client, with the text for screen readers."""
    table = page.text.partition('<table class="whitespace">')[2].partition("</table>")[0]
    columns = [html.unescape(name) for name in re.findall(r'<th scope="col" title="([^"]*)"', table)]
    rows = {}
    for row in table.partition("<tbody>")[2].split("<tr>")[1:]:
        name = re.search(r"<bdi>(.*?)</bdi>", row)
        assert name is not None
        cells = re.findall(r"<td class=.*?</td>", row, re.DOTALL)
        rows[html.unescape(name[1])] = [
            " ".join(html.unescape(re.sub(r"<[^>]+>", "", cell)).split()).replace(" ,", ",") for cell in cells
        ]
    return columns, rows


def show(browser: Browser, **params: str) -> httpx2.Response:
    page = browser.get("/whitespace", params=params)
    assert page.status_code == 200, page.text
    return page


def test_cells_are_counted_and_the_best_chance_is_the_librarys(site: Site) -> None:
    served, data = site.services.served, site.interactions
    families = data.item_attributes["family"]
    columns, rows = grid_of(show(site.browser("ana")))
    assert columns == sorted({str(family) for family in families.tolist()})
    assert set(rows) == set(site.clients("ana"))
    compared = 0
    for client, cells in rows.items():
        owned = {*data.by_user[data.user_rows[client]].tolist()}
        for family, cell in zip(columns, cells, strict=True):
            items = np.flatnonzero(families == family).tolist()
            mine, rest = [i for i in items if i in owned], [i for i in items if i not in owned]
            if not rest:
                assert cell.startswith("✓Owned")
                continue
            if len(items) > 1:
                assert f"owns {len(mine)}/{len(items)}" in cell
            best = max((served.advisor.explain(client, str(data.item_labels[i])).chance for i in rest), default=0)
            assert cell.startswith(f"{percent(best)} chance to buy")
            compared += 1
    assert compared > 50


def test_a_family_expands_to_its_products(site: Site) -> None:
    data, served = site.interactions, site.services.served
    family = max(data.item_attributes["family"].tolist(), key=data.item_attributes["family"].tolist().count)
    columns, rows = grid_of(show(site.browser("ana"), family=family))
    assert set(columns) == {str(data.item_labels[i]) for i in np.flatnonzero(data.item_attributes["family"] == family)}
    for client, cells in rows.items():
        owned = {str(data.item_labels[i]) for i in data.by_user[data.user_rows[client]].tolist()}
        for product, cell in zip(columns, cells, strict=True):
            expected = "✓Owned" if product in owned else percent(served.advisor.explain(client, product).chance)
            assert cell.startswith(expected)
    assert site.browser("ana").get("/whitespace", params={"family": "no such"}).status_code == 404


def test_pipeline_refusals_and_snoozes_are_marked(site: Site) -> None:
    data, browser = site.interactions, site.browser("ana")
    client = site.clients("ana")[0]
    pursued, refused, snoozed = (site.open_product(client, place) for place in range(3))
    browser.submit("/feedback", client=client, product=pursued, status="pursuing")
    for product in (refused, snoozed):
        browser.submit("/feedback", client=client, product=product, status="not a fit")
    returns = date.today() + timedelta(days=5)
    site.change(update(Feedback).where(Feedback.product == snoozed).values(status="snoozed", due=returns))
    grid = find_columns(site.services.served)
    assert grid is not None
    cells = fill_grid(site.services.served, site.database, np.array([data.user_rows[client]]), grid.columns)[0]
    for product, count in ((pursued, "pipeline"), (refused, "refused"), (snoozed, "refused")):
        item = data.item_rows[product]
        cell = next(cell for cell, column in zip(cells, grid.columns, strict=True) if item in column.items)
        assert getattr(cell, count) >= 1
        assert cell.product not in (refused, snoozed)
    assert sum(cell.pipeline for cell in cells) == 1
    assert sum(cell.refused for cell in cells) == 2
    family = str(data.item_attributes["family"][data.item_rows[pursued]])
    columns, rows = grid_of(show(browser, family=family))
    assert "in pipeline" in rows[client][columns.index(pursued)]
    family = str(data.item_attributes["family"][data.item_rows[refused]])
    columns, rows = grid_of(show(browser, family=family))
    assert "Not a fit or closed" in rows[client][columns.index(refused)]


def test_a_cell_opens_its_recommendation(site: Site) -> None:
    browser = site.browser("ana")
    links = re.findall(r'<td class="open[^"]*"><a href="([^"]+)"', show(browser).text)
    assert links
    assert browser.get(html.unescape(links[0])).status_code == 200


def test_clients_come_by_what_is_open_or_by_name(site: Site) -> None:
    advisor = site.services.served.advisor
    _, rows = grid_of(show(site.browser("ana")))
    worth = [sum(best.value or 0 for best in advisor.recommend(client, 5)) for client in rows]
    assert worth == sorted(worth, reverse=True)
    _, rows = grid_of(show(site.browser("ana"), order="name"))
    assert list(rows) == sorted(rows, key=str.casefold)


def test_a_grid_is_paged(site: Site) -> None:
    pages = [set(grid_of(show(site.browser("root"), page=number))[1]) for number in ("1", "2", "3")]
    assert [len(page) for page in pages] == [30, 30, 30]
    assert pages[0] | pages[1] == set(map(str, site.interactions.user_labels))
    assert pages[2] == pages[1]


def test_nobody_sees_the_clients_of_others(site: Site) -> None:
    assert set(grid_of(show(site.browser("ana"), seller="ben"))[1]) == set(site.clients("ana"))
    assert set(grid_of(show(site.browser("max"), seller="ben"))[1]) == set(site.clients("ben"))
    nobodys = {label(site.interactions, row) for row in range(40, 60)}
    assert set(grid_of(show(site.browser("max"), seller="-"))[1]) == nobodys
    everybody = set().union(*(grid_of(show(site.browser("max"), page=str(n)))[1] for n in (1, 2)))
    assert everybody == {*site.clients("ana"), *site.clients("ben"), *nobodys}


@pytest.mark.parametrize(("coclusters", "heading"), [(3, "pattern"), (1, "product")])
def test_without_families_patterns_or_bestsellers_are_the_columns(
    open_site: OpenSite, tmp_path: Path, coclusters: int, heading: str
) -> None:
    blocks = [(u, i) for b in range(3) for u in range(8 * b, 8 * b + 8) for i in range(20 * b, 20 * b + 20)]
    pairs = [(u, i) for u, i in blocks if (u * 7 + i * 3) % 5]
    bare = Interactions.from_pairs([u for u, _ in pairs], [i for _, i in pairs], (24, 60))
    OCuLaR(coclusters, 0.1, random_state=0, tol=1e-4, max_iter=500).fit(bare).save(tmp_path / "models" / "first")
    site = open_site(models=tmp_path / "models")
    page = show(site.browser("root"))
    columns, rows = grid_of(page)
    assert len(rows) == 24
    assert len(columns) == (MAX_COLUMNS if heading == "product" else len(site.services.served.patterns))
    told = "buying patterns are the columns" if heading == "pattern" else "bestsellers are the columns"
    assert told in page.text
    if heading == "pattern":
        number = next(iter(site.services.served.patterns))
        expanded, _ = grid_of(show(site.browser("root"), family=str(number)))
        assert len(expanded) == len(site.services.served.patterns[number].items)


def test_an_empty_grid_says_whom_to_ask(site: Site) -> None:
    site.change(update(Assignment).values(user_id=site.visitor("sue").user.id))
    assert "Ask your manager to assign clients" in show(site.browser("ana")).text
