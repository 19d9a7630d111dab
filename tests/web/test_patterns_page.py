"""The pages of patterns: the index with its filters and map, a pattern's matrix, and the tour."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from sites import Browser, Site, text_of
from sqlalchemy import delete

from ocular import Interactions, OCuLaR
from ocular.explain.names import client_name, product_name
from ocular.web.pattern_index import PatternIndex, whitespace
from ocular.web.pattern_views import MATRIX_CLIENTS, MATRIX_PRODUCTS, best_openings
from ocular.web.tables import Assignment

OpenSite = Callable[..., Site]


def shown(page: str) -> list[int]:
    """The numbers of the patterns on cards, in their order."""
    return [int(number) for number in re.findall(r'<h3><a href="/pattern\?number=(\d+)"', page)]


def index_of(site: Site) -> PatternIndex:
    return site.services.served.pattern_index


# ------------------------------------------------------------------------------------------------ the index


def test_patterns_come_by_share_of_sales_and_by_what_is_asked_for(site: Site) -> None:
    browser, patterns = site.browser("ana"), site.services.served.patterns
    keys = {
        "share": lambda p: p.share,
        "penetration": lambda p: p.density,
        "size": lambda p: len(p.users),
        "whitespace": whitespace,
    }
    assert shown(browser.get("/patterns").text) == shown(browser.get("/patterns", params={"sort": "share"}).text)
    for order, key in keys.items():
        page = browser.get("/patterns", params={"sort": order}).text
        numbers = [number for number in shown(page) if not index_of(site).is_minor(patterns[number])]
        assert numbers == sorted(numbers, key=lambda number: -key(patterns[number]))
        assert len(numbers) > 2
    assert browser.get("/patterns", params={"sort": "colour"}).status_code == 422


def test_a_search_finds_names_and_products(site: Site) -> None:
    browser, served = site.browser("ana"), site.services.served
    pattern = next(iter(served.patterns.values()))
    product = product_name(served.interactions.item_name(int(pattern.items[0])))
    holding = {n for n, p in served.patterns.items() if int(pattern.items[0]) in p.items}
    assert set(shown(browser.get("/patterns", params={"search": product.upper()}).text)) == holding
    assert pattern.index in shown(browser.get("/patterns", params={"search": served.pattern_label(pattern.index)}).text)
    nothing = browser.get("/patterns", params={"search": "no such thing"})
    assert shown(nothing.text) == []
    assert "No matching patterns" in nothing.text


def test_the_filter_by_industry_keeps_patterns_where_it_is_frequent(site: Site) -> None:
    browser, served = site.browser("root"), site.services.served
    industries = served.interactions.user_attributes["industry"]
    for value in sorted(set(industries.tolist()))[:4]:
        overall = (industries == value).mean()
        frequent = {
            n for n, p in served.patterns.items() if (industries[p.users] == value).mean() >= max(1.2 * overall, 1e-9)
        }
        page = browser.get("/patterns", params={"client_value": f"industry={value}"}).text
        assert set(shown(page)) == frequent
    everything = browser.get("/patterns", params={"client_value": "industry=None of these"}).text
    assert set(shown(everything)) == set(served.patterns)


def test_mine_are_the_patterns_of_my_clients(site: Site) -> None:
    rows = {site.interactions.user_rows[client] for client in site.clients("ana")}
    mine = {n for n, p in site.services.served.patterns.items() if rows & set(p.users.tolist())}
    page = site.browser("ana").get("/patterns", params={"mine": "true"}).text
    assert set(shown(page)) == mine
    everything = site.browser("root").get("/patterns").text
    assert "My clients only" in page
    assert 'name="mine"' not in everything  # all clients are an administrator's


def test_minor_patterns_are_folded_away() -> None:
    """Forty clients who buy four products, and one client with a taste of their own."""
    R = np.zeros((41, 7), dtype=np.int64)
    R[:40, :4] = R[40, 4:] = 1
    data = Interactions.from_pairs(*np.nonzero(R))
    patterns = {c.index: c for c in OCuLaR(2, 0.1, tol=0.0, max_iter=80, random_state=0).fit(data).coclusters()}
    index = PatternIndex(data, patterns)
    assert sorted((len(p.users), index.is_minor(p)) for p in patterns.values()) == [(1, True), (40, False)]
    assert [bubble.number for bubble in index.bubble_map.bubbles] == [index.patterns[0].index]


def test_bubbles_do_not_cover_each_other_and_have_the_area_of_their_sales(site: Site) -> None:
    served = site.services.served
    bubbles = served.pattern_index.bubble_map.bubbles
    assert len(bubbles) > 2
    for one in bubbles:
        assert 0 < one.x - one.radius < one.x + one.radius < served.pattern_index.bubble_map.width
        for other in bubbles:
            if one is not other:
                gap = np.hypot(one.x - other.x, one.y - other.y) - one.radius - other.radius
                assert gap > -1
    by_share = sorted(bubbles, key=lambda bubble: -served.patterns[bubble.number].share)
    assert [bubble.radius for bubble in by_share] == sorted((b.radius for b in bubbles), reverse=True)


def test_bubbles_of_overlapping_patterns_are_near() -> None:
    """Twelve groups in a chain, of which neighbours share a third of their clients and products."""
    R = np.zeros((12 * 10 + 5, 12 * 6 + 3), dtype=np.int64)
    for group in range(12):
        R[10 * group : 10 * group + 15, 6 * group : 6 * group + 9] = 1
    data = Interactions.from_pairs(*np.nonzero(R))
    patterns = {c.index: c for c in OCuLaR(12, 0.5, tol=0.0, max_iter=200, random_state=0).fit(data).coclusters()}
    bubbles = PatternIndex(data, patterns).bubble_map.bubbles
    assert len(bubbles) > 8
    near, far = [], []
    for one, other in combinations(bubbles, 2):
        shared = np.intersect1d(patterns[one.number].users, patterns[other.number].users)
        (near if len(shared) else far).append(np.hypot(one.x - other.x, one.y - other.y))
    assert np.mean(near) < 0.7 * np.mean(far)


def test_each_bubble_is_a_link_with_words(site: Site) -> None:
    page = text_of(site.browser("ana").get("/patterns"))
    for bubble in index_of(site).bubble_map.bubbles:
        label = site.services.served.pattern_label(bubble.number)
        assert re.search(rf'<a href="/pattern\?number={bubble.number}" aria-label="{re.escape(label)}: \d', page)


# ------------------------------------------------------------------------------------------------ one pattern


def squares(page: str, state: str) -> int:
    return len(re.findall(rf'<td role="gridcell" tabindex="-1" class="{state}\b', page))


def test_the_matrix_is_what_was_bought(site: Site) -> None:
    """An administrator sees every client, so that all whitespace that may be offered is a link."""
    browser, served = site.browser("root"), site.services.served
    for number, pattern in served.patterns.items():
        page = browser.get("/pattern", params={"number": number}).text
        users, items = pattern.users[:MATRIX_CLIENTS], pattern.items[:MATRIX_PRODUCTS]
        bought = served.interactions.to_matrix()[users][:, items]
        assert squares(page, "bought") == bought.sum()
        assert squares(page, "open") + squares(page, "not") == len(users) * len(items) - bought.sum()
        assert len(re.findall(r'<a href="/recommendation\?client=[^"]*" tabindex="-1">', page)) == squares(page, "open")


def test_only_whitespace_of_ones_own_clients_is_a_link(site: Site) -> None:
    browser, mine = site.browser("ana"), set(site.clients("ana"))
    linked = 0
    for number in site.services.served.patterns:
        page = text_of(browser.get("/pattern", params={"number": number}))
        for client in re.findall(r'href="/(?:recommendation\?client|client\?name)=([^"&]*)', page):
            linked += 1
            assert browser.get(f"/client?name={client}").status_code == 200
    assert linked > 10
    assert mine


def test_my_clients_come_first_and_names_of_others_are_hidden(site: Site) -> None:
    browser, served = site.browser("ana"), site.services.served
    number, pattern = max(served.patterns.items(), key=lambda pair: len(pair[1].users))
    page = text_of(browser.get("/pattern", params={"number": number}))
    rows = re.findall(r'<tr( class="mine")?><th scope="row" title="([^"]*)"', page)
    own = [client_name(served.interactions.user_name(u)) for u in pattern.users if u in range(15)]
    assert [name for is_mine, name in rows if is_mine] == own
    assert [bool(is_mine) for is_mine, _ in rows] == sorted((bool(is_mine) for is_mine, _ in rows), reverse=True)
    assert "Names from other teams are hidden" in page
    assert "A client" in {name for is_mine, name in rows if not is_mine}
    theirs = {client_name(name) for name in site.clients("sue")}
    assert not {name for _, name in rows} & theirs


def test_the_best_whitespace_has_the_chance_of_the_recommendation(site: Site) -> None:
    served = site.services.served
    pattern = max(served.patterns.values(), key=whitespace)
    openings = best_openings(served, pattern.users, pattern.items, closed=np.empty((0, 2), dtype=np.int64))
    assert len(openings) > 3
    for opening in openings:
        recommendation = served.advisor.explain(opening.client, opening.product)
        assert opening.chance == pytest.approx(recommendation.chance)
        assert opening.value == recommendation.value or opening.value == pytest.approx(recommendation.value)
    first = served.interactions.user_rows[openings[0].client], served.interactions.item_rows[openings[0].product]
    rest = best_openings(served, pattern.users, pattern.items, closed=np.array([first]))
    assert (openings[0].client, openings[0].product) not in {(o.client, o.product) for o in rest}


def test_a_closed_offer_is_no_whitespace(site: Site) -> None:
    browser, served = site.browser("root"), site.services.served
    number = next(iter(served.patterns))
    address = re.compile(r'<th scope="row"[^>]*><a href="(/recommendation\?[^"]*)"')
    first = address.findall(text_of(browser.get("/pattern", params={"number": number})))[0]
    client, product = (part.partition("=")[2] for part in first.partition("?")[2].split("&"))
    asked = browser.get(first)
    assert asked.status_code == 200
    answer = browser.submit("/feedback", client=unquote(client), product=unquote(product), status="lost")
    assert answer.status_code == 303
    assert first not in address.findall(text_of(browser.get("/pattern", params={"number": number})))


def test_the_profile_is_true_by_share(site: Site) -> None:
    served = site.services.served
    for number, pattern in served.patterns.items():
        for profile in served.pattern_index.profiles(number):
            data = served.interactions
            column = (data.user_attributes if profile.side == "client" else data.item_attributes)[profile.attribute]
            members = pattern.users if profile.side == "client" else pattern.items
            for value, share, overall in profile.rows:
                assert share == pytest.approx((column[members] == value).mean())
                assert overall == pytest.approx((column == value).mean())


def test_a_pattern_that_is_not_there(site: Site) -> None:
    for address in ("/pattern", "/patterns/tour"):
        answer = site.browser("ana").get(address, params={"number": 999})
        assert answer.status_code == 404
        assert "Pattern not found" in answer.text


# ------------------------------------------------------------------------------------------------ the tour


def test_a_tour_tells_what_the_clients_of_an_industry_buy(site: Site) -> None:
    browser, data = site.browser("root"), site.interactions
    industries = data.user_attributes["industry"]
    value = max(set(industries.tolist()), key=lambda v: int((industries == v).sum()))
    page = text_of(browser.get("/patterns/tour", params={"about": f"industry={value}"}))
    assert f"How {value} clients buy" in page
    users = np.flatnonzero(industries == value)
    assert f"<b>{len(users)} clients</b>" in page
    counts = np.bincount(data.by_user.take(users).indices, minlength=data.n_items)
    best = product_name(data.item_name(int(np.argsort(-counts, kind="stable")[0])))
    first = re.search(
        r"What (?:nearly all of them buy|they buy most)</h2>.*?<bdi>(.*?)</bdi>.*?<b>(.*?)</b>", page, re.S
    )
    assert first is not None
    assert first.groups() == (best, f"{100 * counts.max() / len(users):.0f}%")
    assert page.count('<li class="card"><h2>') == 5


def test_a_tour_leads_to_a_recommendation_for_ones_own_client(site: Site) -> None:
    browser = site.browser("ana")
    number = max(site.services.served.patterns, key=lambda n: len(site.services.served.patterns[n].users))
    page = text_of(browser.get("/patterns/tour", params={"number": number}))
    address = re.search(r'<a class="button" href="(/recommendation[^"]*)"', page)
    assert address is not None
    assert browser.get(address[1]).status_code == 200
    gaps = re.search(r"Where my clients have gaps.*?(\d+) of (\d+)", page, re.DOTALL)
    assert gaps is not None
    assert int(gaps[2]) <= len(site.clients("ana"))


def test_too_few_clients_make_no_tour(site: Site) -> None:
    """What two clients buy would tell on each of them."""
    data, browser = site.interactions, site.browser("ana")
    for attribute in ("industry", "country"):
        values = data.user_attributes[attribute].tolist()
        rare = next(value for value in values if values.count(value) < 5)
        assert browser.get("/patterns/tour", params={"about": f"{attribute}={rare}"}).status_code == 404
    assert browser.get("/patterns/tour", params={"about": "nonsense"}).status_code == 404


# ------------------------------------------------------------------------------------------------ with less data


@pytest.fixture
def bare(open_site: OpenSite, companies: Interactions, tmp_path: Path) -> Site:
    """The same purchases without attributes, prices, dates and calibration."""
    users = np.repeat(np.arange(companies.n_users), companies.by_user.degrees)
    plain = Interactions.from_pairs(
        users, companies.by_user.indices, user_labels=companies.user_labels, item_labels=companies.item_labels
    )
    OCuLaR(6, 0.3, tol=1e-3, random_state=0).fit(plain).save(tmp_path / "models" / "bare")
    return open_site(models=tmp_path / "models")


@pytest.mark.parametrize("who", ["ana", "root"])
def test_without_attributes_prices_and_calibration_pages_say_what_is_missing(bare: Site, who: str) -> None:
    browser = bare.browser(who)
    index = browser.get("/patterns")
    assert "--client-attribute industry" in index.text
    assert '<select name="client_value"' not in index.text
    number = next(iter(bare.services.served.patterns))
    page = browser.get("/pattern", params={"number": number})
    assert (index.status_code, page.status_code) == (200, 200)
    assert "Profile</h2>" not in page.text
    assert "Expected value" not in page.text
    tour = browser.get("/patterns/tour")
    assert "By pattern" in tour.text
    assert "--client-attribute industry" in tour.text
    assert browser.get("/patterns/tour", params={"number": number}).status_code == 200


def test_whoever_has_no_clients_still_reads_the_patterns(site: Site) -> None:
    site.change(delete(Assignment))
    site.services.assignments.invalidate()
    browser: Browser = site.browser("ana")
    number = next(iter(site.services.served.patterns))
    page = browser.get("/pattern", params={"number": number}).text
    assert "None of your clients are in this pattern. Ask your manager to assign clients." in page
    assert squares(page, "open") == 0
    assert "None of your clients are among them" in browser.get("/patterns/tour", params={"number": number}).text
    assert "No matching patterns" in browser.get("/patterns", params={"mine": "true"}).text
