"""A client's page: who they are, what to offer, what they bought and when, and who is like them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from conftest import OpenSite
from sites import NOBODYS, Browser, Site, label, rows_of, text_of

from ocular import Interactions, OCuLaR
from ocular.explain.price import money
from ocular.web.client_profile import similar_clients
from ocular.web.settings import Names
from ocular.web.tables import Assignment
from ocular.web.timeline import MAX_MONTHS, view_timeline


def page_of(browser: Browser, client: str) -> str:
    answer = browser.get("/client", params={"name": client})
    assert answer.status_code == 200
    return text_of(answer)


def tiles_of(page: str) -> dict[str, str]:
    tiles = page.partition('<dl class="stats">')[2].partition("</dl>")[0]
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", tiles, re.DOTALL)
    return {name: " ".join(re.sub(r"<[^>]+>", " ", value).split()) for name, value in found}


def section(page: str, heading: str) -> str:
    return page.partition(f"<h2>{heading}</h2>")[2].partition("<h2>")[0]


# ------------------------------------------------------------------------------------------------ who they are


def test_the_profile_line_has_the_values_and_not_the_seller_of_the_data(site: Site) -> None:
    client, data = site.clients("ana")[0], site.interactions
    row = data.user_rows[client]
    values = [str(data.user_attributes[name][row]) for name in ("industry", "country", "size")]
    line = page_of(site.browser("ana"), client).partition("</h1>")[2].partition("</p>")[0]
    assert re.findall(r"<bdi>(.*?)</bdi>", line) == values
    assert "Seller" not in line


def test_leaders_read_whose_client_it_is(site: Site) -> None:
    client, nobodys = site.clients("ana")[0], label(site.interactions, NOBODYS[0])
    assert "Seller: <bdi>Ana Example</bdi>" in page_of(site.browser("max"), client)
    assert "Seller: <bdi>Unassigned</bdi>" in page_of(site.browser("root"), nobodys)


def test_tiles_add_up_the_purchases(site: Site) -> None:
    client, data = site.clients("ana")[0], site.interactions
    row, bought = data.user_rows[client], data.purchases
    mine = np.isin(bought.pair, np.arange(data.by_user.indptr[row], data.by_user.indptr[row + 1]))
    spend = float((bought.price[mine] * bought.quantity[mine]).sum())
    tiles = tiles_of(page_of(site.browser("ana"), client))
    assert tiles["Products owned"] == str(len(data.by_user[row]))
    assert tiles["Spend"] == money(spend, data.currency)
    assert tiles["Last purchase"] == bought.time[mine].max().item().strftime("%-d %b %Y")


# ------------------------------------------------------------------------------------------------ what they bought


def make(**given: object) -> Interactions:
    """One client with two nuts and a bolt, another with a nut."""
    return Interactions.from_pairs(
        [0, 0, 0, 1], [0, 1, 0, 0], user_labels=["Acme", "Bolt"], item_labels=["nut", "bolt"], **given
    )


def test_a_timeline_is_newest_first_with_amounts_by_month() -> None:
    data = make(
        price=[2.0, 50.0, 3.0, 1.0], quantity=[10, 1, np.nan, 1], time=["2024-01-05", "2024-03-31", "2024-03-01", "NaT"]
    )
    timeline = view_timeline(data, 0, date(2024, 5, 2))
    told = [(each.product_name, each.day, each.quantity, each.amount) for each in timeline.purchases]
    assert told == [
        ("bolt", date(2024, 3, 31), 1.0, 50.0),
        ("nut", date(2024, 3, 1), None, 3.0),
        ("nut", date(2024, 1, 5), 10.0, 20.0),
    ]
    assert (timeline.n_purchases, timeline.n_products, timeline.spend, timeline.last) == (3, 2, 73.0, date(2024, 3, 31))
    assert timeline.months == ["Jan 2024", "Feb 2024", "Mar 2024", "Apr 2024", "May 2024"]
    assert timeline.amounts == [20.0, 0.0, 53.0, 0.0, 0.0]
    assert [(each.product_name, each.purchases, each.amount) for each in timeline.owned] == [
        ("bolt", 1, 50.0),
        ("nut", 2, 23.0),
    ]


def test_a_timeline_without_prices_counts_purchases() -> None:
    timeline = view_timeline(make(time=["2024-01-05", "2024-03-31", "2024-03-01", "2024-06-01"]), 0)
    assert timeline.spend is None
    assert timeline.amounts == [1.0, 0.0, 2.0]


def test_a_timeline_without_dates_or_without_anything() -> None:
    undated = view_timeline(make(price=[1.0, 2.0, 3.0, 4.0]), 0)
    assert (undated.spend, undated.last, undated.months) == (6.0, None, [])
    bare = view_timeline(make(), 0)
    assert ([each.product_name for each in bare.purchases], bare.spend, bare.last) == (["nut", "bolt"], None, None)
    assert view_timeline(make(time=["NaT"] * 4), 0).months == []


def test_a_long_timeline_shows_the_last_months() -> None:
    timeline = view_timeline(make(time=["1990-01-01", "2024-03-31", "2024-03-01", "2024-06-01"]), 0)
    assert len(timeline.months) == MAX_MONTHS
    assert timeline.months[-1] == "Mar 2024"
    assert sum(timeline.amounts) == 2


def test_the_history_is_folded_after_a_dozen(open_site: OpenSite, tmp_path: Path) -> None:
    n = 40
    days = np.datetime64("2024-01-01") + 7 * np.arange(n)
    data = Interactions.from_pairs(
        [0] * n + [1] * 3, [*range(n), 0, 1, 2], user_labels=["Acme", "Bolt"],
        item_labels=[f"part {i}" for i in range(n)], time=[*days, *days[:3]], price=[10.0] * (n + 3), currency="€",
    )  # fmt: skip
    page = page_of(browser_on(open_site, tmp_path, data), "Acme")
    chart, _, history = page.partition("<h2>Purchase history</h2>")[2].partition("</figure>")
    shown, _, folded = history.partition("<details><summary>28 earlier purchases</summary>")
    assert [row[0] for row in rows_of(shown)[1:]] == [f"part {i}" for i in range(n - 1, n - 13, -1)]
    assert len(rows_of(folded)) == 29
    assert rows_of(shown)[1] == ["part 39", "30 Sep 2024", "", "€10.00", "€10.00"]
    assert rows_of(chart)[0] == ["Jan 2024", "€50.00"]
    assert rows_of(chart)[-1] == ["Sep 2024", "€50.00"]


def browser_on(open_site: OpenSite, folder: Path, data: Interactions) -> Browser:
    """A browser of Ana, who has the first client, on a model of these purchases."""
    OCuLaR(1, 0.1, random_state=0, tol=1e-3, max_iter=200).fit(data).save(folder / "models" / "first")
    site = open_site(models=folder / "models")
    with site.database.writing() as transaction:
        transaction.add(Assignment(client=str(data.user_labels[0]), user_id=site.visitor("ana").user.id))
    return site.browser("ana")


def test_data_without_prices_dates_and_attributes_says_so(open_site: OpenSite, tmp_path: Path) -> None:
    page = page_of(browser_on(open_site, tmp_path, make()), "Acme")
    tiles = tiles_of(page)
    assert tiles["Spend"] == "– no prices in the data"
    assert tiles["Last purchase"] == "– no dates in the data"
    assert "The purchase data has neither dates nor prices." in page
    assert "No recommendations left." in page  # both products are owned


def test_a_client_without_purchases_gets_bestsellers(open_site: OpenSite, tmp_path: Path) -> None:
    data = Interactions.from_pairs(
        [1, 1, 2], [0, 1, 0], (3, 2), user_labels=["New", "Acme", "Bolt"], item_labels=["nut", "bolt"]
    )
    page = page_of(browser_on(open_site, tmp_path, data), "New")
    assert "No purchases yet; showing bestsellers" in page
    assert "Known once there are purchases." in section(page, "Similar clients")


# ------------------------------------------------------------------------------------------------ what to offer


def test_cards_have_one_probability_and_what_the_value_is_made_of(site: Site) -> None:
    client, served = site.clients("ana")[0], site.services.served
    page = section(page_of(site.browser("ana"), client), "Recommendations")
    cards = page.split('<article class="card proposal">')[1:]
    expected = served.advisor.recommend(client, 5)
    assert len(cards) == len(expected) == 5
    for card, each in zip(cards, expected, strict=True):
        assert card.count("Chance to buy") == 1
        assert f'title="Model score {each.confidence:.2f}"' in card
        assert f"based on {each.observed.recommendations:,} past cases" in card
        assert ("typical price" in card) == (each.value is not None)
        assert ("not enough price data" in card) == (each.value is None or each.price is None)
    assert page.count("Highest value") == 1
    best = max(expected, key=lambda each: each.value or 0)
    assert f"<bdi>{best.product}</bdi></a>" in page.partition("Highest value")[0].rpartition("<article")[2]


def test_a_status_is_shown_and_a_closed_one_is_folded(site: Site) -> None:
    client, ana = site.clients("ana")[0], site.browser("ana")
    first, second = site.open_product(client), site.open_product(client, 1)
    ana.submit("/feedback", client=client, product=first, status="pursuing")
    ana.submit("/feedback", client=client, product=second, status="lost")
    page = page_of(ana, client)
    assert '<span class="tag pursuing">Pursuing</span>' in section(page, "Recommendations")
    closed = page.partition("<summary>Closed (1)</summary>")[2].partition("</details>")[0]
    assert second in closed
    assert first not in closed


# ------------------------------------------------------------------------------------------------ patterns, others


def test_patterns_are_those_that_the_client_is_a_member_of(site: Site) -> None:
    served, ana = site.services.served, site.browser("ana")
    found = 0
    for client in site.clients("ana"):
        row = served.interactions.user_rows[client]
        chips = section(page_of(ana, client), "Patterns")
        linked = {int(number) for number in re.findall(r'href="/pattern\?number=(\d+)"', chips)}
        assert linked == {number for number, pattern in served.patterns.items() if row in pattern.users}
        found += len(linked)
    assert found > 5


@pytest.mark.parametrize(("names", "who"), [(Names.TEAM, "ana"), (Names.NOBODY, "ana"), (Names.EVERYBODY, "ana")])
def test_similar_clients_are_only_named_where_they_may_be(open_site: OpenSite, names: Names, who: str) -> None:
    site = open_site(names=names)
    browser, visible = site.browser(who), set(site.clients(who))
    readable = site.services.visibility.readable_names(site.services.served, site.visitor(who))
    allowed = {str(site.interactions.user_name(row)) for row in np.flatnonzero(readable)}
    listed = set()
    for client in site.clients(who)[:6]:
        similar = section(page_of(browser, client), "Similar clients")
        named = set(re.findall(r"<bdi>(.*?)</bdi>", similar))
        assert named <= allowed - {client}
        assert set(re.findall(r'<a href="/client[^>]*><bdi>(.*?)</bdi>', similar)) == named & visible
        listed |= named
    assert listed
    assert (listed <= visible) == (names is Names.NOBODY)


def test_similar_clients_share_products_and_come_in_order(site: Site) -> None:
    served, data = site.services.served, site.interactions
    everybody = np.ones(data.n_users, dtype=bool)
    found = similar_clients(served, 0, everybody, np.arange(data.n_users), 60)
    mine = set(data.by_user[0].tolist())
    shares = []
    for each in found:
        theirs = set(data.by_user[data.user_rows[each.client]].tolist())
        assert (each.in_common, each.n_products) == (len(mine & theirs), len(theirs))
        shares.append(len(mine & theirs) / len(mine | theirs))
    assert shares == sorted(shares, reverse=True)  # the model has no peers
    assert len(found) == sum(bool(mine & set(data.by_user[user].tolist())) for user in range(1, data.n_users))
