"""Lists of clients: how they are searched, filtered and ordered, what a call is worth, and what is to be done."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx2
import numpy as np
import pytest
from sites import NOBODYS, Site, both_databases, label, rows_of, text_of

from ocular import Interactions, OCuLaR
from ocular.web.client_attributes import MAX_VALUES, ClientAttributes
from ocular.web.opportunities import DEPTH

OpenSite = Callable[..., Site]
NAMES = ["Café Müller GmbH", "Müller Söhne", "Cafe Nord", "ŁÓDŹ Sp. z o.o."]
PRODUCTS = ["Röhre groß", "röhre klein", "Ventil", "Pumpe"]


def listed(answer: httpx2.Response) -> list[list[str]]:
    assert answer.status_code == 200
    return rows_of(answer.text)[1:]


@pytest.fixture(scope="module")
def accented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = Interactions.from_pairs(
        [0, 0, 1, 1, 2, 2, 3], [0, 2, 0, 3, 1, 2, 2], user_labels=NAMES, item_labels=PRODUCTS
    )
    folder = tmp_path_factory.mktemp("accented")
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(history).save(folder / "accented")
    return folder


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("muller", {0, 1}),
        ("  MÜLLER  ", {0, 1}),
        ("gmbh cafe", {0}),
        ("café", {0, 2}),
        ("łódź", {3}),
        ("mull nord", set()),
    ],
)
def test_a_search_ignores_case_accents_spaces_and_order(
    open_site: OpenSite, accented: Path, search: str, found: set[int]
) -> None:
    rows = listed(open_site(models=accented).browser("root").get("/accounts", params={"search": search}))
    assert {row[0] for row in rows} == {NAMES[n] for n in found}


def test_a_product_is_found_by_part_of_its_name(open_site: OpenSite, accented: Path) -> None:
    site = open_site(models=accented)
    root = site.browser("root")
    served = site.services.served.opportunities
    assert served.find_products("ROHRE").tolist() == [0, 1]
    assert served.find_products("klein rohre").tolist() == [1]
    assert served.find_products("Ventil").tolist() == [2]
    rows = listed(root.get("/accounts", params={"product": "rohre"}))
    assert rows
    assert {row[1] for row in rows} <= {"Röhre groß", "röhre klein"}
    page = root.get("/accounts", params={"product": "no such"})
    assert "No product matches “<bdi>no such</bdi>”; showing all." in page.text
    assert len(listed(page)) == len(NAMES)  # all, as it says


@pytest.mark.parametrize(
    ("typed", "as_if"), [("", ""), ("0", ""), ("37", 37), ("-5", ""), ("150", 100), ("some", ""), ("٣", 3)]
)
def test_the_minimum_chance_is_any_whole_number_or_nothing(site: Site, typed: str, as_if: int | str) -> None:
    page = site.browser("root").get("/accounts", params={"min_chance": typed})
    assert page.status_code == 200
    assert f'name="min_chance" value="{as_if}"' in page.text


def test_a_page_beyond_the_end_is_the_last(site: Site) -> None:
    root = site.browser("root")
    last, beyond = root.get("/accounts", params={"page": 2}), root.get("/accounts", params={"page": 99})
    assert "Page 2 of 2" in beyond.text
    assert listed(last) == listed(beyond)
    assert len(listed(beyond)) == 10


@pytest.mark.parametrize("order", ["value", "confidence", "name"])
def test_lists_are_ordered_as_asked(site: Site, order: str) -> None:
    root = site.browser("root")
    pages = [root.get("/accounts", params={"order": order, "page": page}) for page in (1, 2)]
    rows = [row for page in pages for row in listed(page)]
    if order == "name":
        assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=str.casefold)
    else:
        place = 2 if order == "confidence" else 3
        figures = [float(re.sub(r"[^\d.]", "", row[place])) for row in rows]
        assert figures == sorted(figures, reverse=True)
    assert f'name="order" value="{order}"' in pages[0].text
    assert f"order={order}&amp;page=2" in pages[0].text
    assert root.get("/accounts", params={"order": "size"}).status_code == 422


@both_databases
def test_a_manager_sees_the_clients_of_one_seller_or_of_nobody(site: Site) -> None:
    max_ = site.browser("max")
    assert {row[0] for row in listed(max_.get("/accounts", params={"seller": "ben"}))} == set(site.clients("ben"))
    free = {label(site.interactions, row) for row in NOBODYS}
    assert {row[0] for row in listed(max_.get("/accounts", params={"seller": "-"}))} == free
    everything = listed(max_.get("/accounts"))
    assert listed(max_.get("/accounts", params={"seller": "sue"})) == everything  # not of the team
    assert f">{len(NOBODYS)} unassigned clients<" in max_.get("/team").text
    mine = listed(site.browser("ana").get("/accounts", params={"seller": "ben"}))
    assert {row[0] for row in mine} == set(site.clients("ana"))


def test_clients_are_filtered_by_their_attributes(site: Site) -> None:
    root, attributes = site.browser("root"), site.interactions.user_attributes
    assert [*site.services.served.opportunities.attributes.values] == ["industry", "country", "size"]  # not the seller
    country, size = attributes["country"][0], attributes["size"][0]
    both = {
        label(site.interactions, row)
        for row in range(site.interactions.n_users)
        if (attributes["country"][row], attributes["size"][row]) == (country, size)
    }
    page = root.get("/accounts", params={"having": ["", f"country:{country}", f"size:{size}"]})
    assert {row[0] for row in listed(page)} == both
    assert {(row[6], row[7]) for row in listed(page)} == {(country, size)}
    assert f'value="country:{country}" selected' in text_of(page)
    assert "having=country" in page.text.partition("<thead>")[2]  # kept when the order changes
    everybody = listed(root.get("/accounts"))
    assert listed(root.get("/accounts", params={"having": ["country:Atlantis", "size"]})) == everybody


def test_leaders_see_whose_clients_they_are(site: Site) -> None:
    owners = site.owners()
    for row in listed(site.browser("root").get("/accounts")):
        assert row[8] == (f"{owners[row[0]].title()} Example" if row[0] in owners else "Unassigned")
    assert {len(row) for row in listed(site.browser("ana").get("/accounts"))} == {8}


def test_the_minimum_chance_goes_by_the_chance_that_is_shown(site: Site) -> None:
    chances = {row[2] for row in listed(site.browser("root").get("/accounts"))}
    middle = sorted(float(chance.rstrip("%")) for chance in chances)[len(chances) // 2]
    rows = listed(site.browser("root").get("/accounts", params={"min_chance": int(middle)}))
    shown = {float(row[2].rstrip("%")) for row in rows}
    assert middle in shown
    assert min(shown) >= int(middle)


@pytest.mark.parametrize(
    ("cells", "choices"),
    [
        ({"industry": ["a", "b", None, "a"]}, {"industry": ["a", "b"]}),
        ({"code": list("abcd"), "same": ["x"] * 4}, {"code": list("abcd")}),
        ({"Account_Manager": ["a", "b", "b", "a"], "size": [1.0, float("nan"), 2.5, 1.0]}, {"size": ["1.0", "2.5"]}),
        ({name: ["a", "b", "b", "a"] for name in "pqrs"}, {name: ["a", "b"] for name in "pqr"}),
        ({}, {}),
    ],
    ids=["missing", "constant", "owner", "many", "none"],
)
def test_attributes_that_say_something_are_columns(
    cells: dict[str, list[object]], choices: dict[str, list[str]]
) -> None:
    attributes = {name: np.array(values, dtype=object) for name, values in cells.items()}
    data = Interactions.from_pairs([0, 1, 2, 3], [0, 0, 0, 0], user_attributes=attributes)
    assert ClientAttributes(data).values == choices


def test_an_attribute_of_many_values_is_no_column() -> None:
    rows = np.arange(MAX_VALUES + 1)
    data = Interactions.from_pairs(rows, 0 * rows, user_attributes={"name": rows.astype(str).astype(object)})
    assert ClientAttributes(data).values == {}


# ------------------------------------------------------------------------------------------------ what it is worth


def test_a_call_is_worth_the_same_on_every_page(site: Site) -> None:
    browser, program, compared = site.browser("ana"), site.program("ana"), 0
    for row in listed(browser.get("/accounts")):
        client, product, value = row[0], row[1], row[3]
        card = text_of(browser.get("/client", params={"name": client})).partition(f"<bdi>{product}</bdi></a>")[2]
        page = text_of(browser.get("/recommendation", params={"client": client, "product": product}))
        for shown in (card, page):
            told = shown.partition("<dt>Expected value</dt><dd>")[2]
            assert re.split(" <span|</dd>", told)[0] == value
        told = program.get("/api/v1/explanation", params={"client": client, "product": product}).json()
        assert told["value"] == round(told["value"], 2)
        compared += value != "–"
    assert compared > 5


def owned_pair(site: Site) -> dict[str, str]:
    """A product that the client has, with reasons."""
    for row in range(15):
        for item in site.interactions.by_user[row].tolist():
            client, product = label(site.interactions, row), str(site.interactions.item_labels[item])
            if site.services.served.advisor.explain(client, product).explanation.summary().shown_reasons:
                return {"client": client, "product": product}
    raise AssertionError("nothing is owned for a reason")


def test_what_the_client_has_is_not_recommended(site: Site) -> None:
    pair, browser = owned_pair(site), site.browser("ana")
    page = browser.get("/recommendation", params=pair).text
    assert 'class="bought"' in page
    assert '<td class="wanted"' not in page
    assert "<dt>Expected value</dt>" not in page
    assert re.findall(r'name="status" value="([^"]+)"', page) == ["not a fit", "won", "lost"]
    told = site.program("ana").get("/api/v1/explanation", params=pair).json()
    assert (told["owned"], told["value"]) == (True, None)
    answer = browser.submit("/feedback", **pair, status="pursuing", note="after all")
    assert answer.status_code == 409
    assert "The client already owns this product." in answer.text
    assert ">after all</textarea>" in answer.text  # to choose another verdict
    assert browser.submit("/feedback", **pair, status="won").status_code == 303
    answer = site.program("ana").post("/api/v1/feedback", json=pair | {"status": "pursuing"})
    assert (answer.status_code, answer.json()) == (409, {"error": "The client already owns this product"})


# ------------------------------------------------------------------------------------------------ what is decided


@both_databases
def test_the_next_best_take_the_place_of_what_is_decided(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    best = [str(found.product) for found in site.services.served.advisor.recommend(client, 2 * DEPTH)]
    for product in best[:DEPTH]:
        browser.submit("/feedback", client=client, product=product, status="not a fit", reason="no need")
    page = text_of(browser.get("/client", params={"name": client}))
    open_part, _, decided = page.partition('<details class="closed"><summary>Closed (5)</summary>')
    links = [re.findall(r"&product=[^\"]*\"><bdi>([^<]+)</bdi>", part) for part in (open_part, decided)]
    assert links == [best[DEPTH:], best[:DEPTH][::-1]]
    assert decided.count("no need") == DEPTH
    browser.submit("/feedback", client=client, product=best[0], status="pursuing")
    assert "Closed (4)" in browser.get("/client", params={"name": client}).text
    standing = {
        told["product"]: told["status"]
        for told in site.program("ana").get("/api/v1/recommendations", params={"client": client, "n": 6}).json()
    }
    assert standing == {best[0]: "pursuing"} | dict.fromkeys(best[1:DEPTH], "not a fit") | {best[DEPTH]: None}


def test_what_was_just_decided_is_unfolded(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    fields = {"client": client, "product": site.open_product(client), "back": "client"}
    answer = browser.submit("/feedback", **fields, status="lost")
    assert '<details class="closed" open><summary>Closed (1)' in browser.get(answer.headers["location"]).text
    assert '<details class="closed"><summary>Closed (1)' in browser.get("/client", params={"name": client}).text


# ------------------------------------------------------------------------------------------------ what if, ways


@pytest.mark.parametrize(
    ("also", "status", "told"),
    [
        (["no such product"], 404, "Product not found."),
        (["PRODUCT"] * 11, 422, "Expected at most 10 products, got 11."),
    ],
    ids=["unknown", "many"],
)
def test_a_wrong_supposition_is_told_beside_its_field(site: Site, also: list[str], status: int, told: str) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    product = site.open_product(client)
    given = [product if name == "PRODUCT" else name for name in also]
    answer = browser.get("/recommendation", params={"client": client, "product": product, "also": given})
    assert answer.status_code == status
    form = text_of(answer).partition("What if")[2].partition("</form>")[0]
    assert told in form
    assert f'name="also" value="{given[-1]}" list' in form
    assert "<h2>Why</h2>" in answer.text


def test_an_address_that_does_not_exist_keeps_the_navigation(site: Site) -> None:
    pages = [site.browser("ana").get("/nowhere"), site.stranger().get("/nowhere")]
    assert [page.status_code for page in pages] == [404, 404]
    assert ["Sign out" in page.text for page in pages] == [True, False]


def test_whoever_is_signed_in_needs_no_sign_in(site: Site) -> None:
    answer = site.browser("ana").get("/sign-in", params={"next": "/team"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/team")
    assert site.browser("ana").get("/sign-in").headers["location"] == "/"
    assert site.stranger().get("/sign-in").status_code == 200


def test_names_of_products_stay_in_the_browser_of_one_person(site: Site) -> None:
    assert site.browser("ana").get("/products").headers["cache-control"] == "private, max-age=300"
