"""The pages for a prospect and a new product: lists with reasons, of clients that the visitor may see."""

from __future__ import annotations

import re

import pytest
from conftest import OpenSite
from sites import Site, text_of

API = "/api/v1"


def results_of(page: str) -> list[str]:
    """The names in a list of results."""
    return re.findall(r"<h3><a [^>]*><bdi>(.*?)</bdi></a></h3>", page)


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    return open_site()


def test_a_prospect_gets_recommendations_with_reasons(site: Site) -> None:
    industry = str(site.interactions.user_attributes["industry"][0])
    page = text_of(site.browser("ana").get("/prospect", params={"attribute.industry": industry}))
    expected = site.services.served.advisor.recommend_new(attributes={"industry": industry}, n=10)
    assert results_of(page) == [str(each.product) for each in expected]
    assert expected[0].explanation.shown_reasons[0].sentence_without_names in page
    assert not any(client in page for client in map(str, site.interactions.user_labels))
    assert f'value="{industry}"' in page


def test_products_that_the_prospect_has(site: Site) -> None:
    products = [str(label) for label in site.interactions.item_labels[:2]]
    page = text_of(site.browser("ana").get("/prospect", params={"has": "\n".join(products)}))
    assert results_of(page)
    assert not set(products) & set(results_of(page))


@pytest.mark.parametrize(("name", "sees_all"), [("ana", False), ("root", True)])
def test_a_new_product_is_offered_to_visible_clients_only(site: Site, name: str, sees_all: bool) -> None:
    family = str(site.interactions.item_attributes["family"][0])
    page = text_of(site.browser(name).get("/new-product", params={"attribute.family": family}))
    listed, own = set(results_of(page)), set(site.clients("ana"))
    assert listed
    assert (listed <= own) != sees_all
    hidden = set(map(str, site.interactions.user_labels)) - own
    assert sees_all or not any(client in page for client in hidden)


def test_a_hidden_client_is_no_buyer_and_is_not_confirmed(site: Site) -> None:
    hidden = next(str(label) for label in site.interactions.user_labels if str(label) not in site.clients("ana"))
    browser = site.browser("ana")
    pages = [text_of(browser.get("/new-product", params={"buyers": name})) for name in (hidden, "nobody at all")]
    assert all('role="alert">Client not found.' in page for page in pages)
    own = site.clients("ana")[0]
    assert own not in results_of(text_of(browser.get("/new-product", params={"buyers": own})))


@pytest.mark.parametrize(
    ("path", "parameters", "mistake"),
    [
        ("/prospect", {"attribute.colour": "red"}, "No client attribute named"),
        ("/prospect", {"has": "no such thing"}, "No product named"),
        ("/new-product", {"attribute.family": "Sausages"}, "got none that the model knows"),
    ],
)
def test_mistakes_are_told_on_the_page(site: Site, path: str, parameters: dict[str, str], mistake: str) -> None:
    answer = site.browser("root").get(path, params=parameters)
    assert answer.status_code == 200
    assert mistake in text_of(answer)
    assert results_of(answer.text) == []


def test_both_are_reached_from_the_accounts(site: Site) -> None:
    browser = site.browser("ana")
    for address in ("/prospect", "/new-product"):
        assert f'<a href="{address}">' in browser.get("/accounts").text
        assert '<a href="/accounts" aria-current="true">Accounts</a>' in browser.get(address).text


def test_programs_get_the_same_as_the_pages(site: Site) -> None:
    industry, product = str(site.interactions.user_attributes["industry"][0]), str(site.interactions.item_labels[0])
    given = {"attributes": {"industry": industry}, "purchases": [product]}
    answer = site.program("ana").post(f"{API}/prospects", json=given)
    expected = site.services.served.advisor.recommend_new([product], 10, attributes={"industry": industry})
    assert answer.status_code == 200
    found = answer.json()
    assert [row["product"] for row in found] == [str(each.product) for each in expected]
    assert [row["chance"] for row in found] == pytest.approx([each.chance for each in expected])
    assert found[0]["reasons"][0]["sentence"] == expected[0].explanation.shown_reasons[0].sentence_without_names
    assert {row["client"] for row in found} == {None}
    fields = {"attribute.industry": industry, "has": product}
    assert results_of(text_of(site.browser("ana").get("/prospect", params=fields))) == [row["product"] for row in found]


@pytest.mark.parametrize(("name", "sees_all"), [("ana", False), ("max", False), ("root", True)])
def test_a_program_gets_visible_clients_for_a_new_product(site: Site, name: str, sees_all: bool) -> None:
    family, program = str(site.interactions.item_attributes["family"][0]), site.program(name)
    answer = program.post(f"{API}/new-products", json={"attributes": {"family": family}, "n": 60})
    served, visitor = site.services.served, site.visitor(name)
    visible = {str(site.interactions.user_labels[row]) for row in site.services.visibility.clients_of(served, visitor)}
    listed = {row["client"] for row in answer.json()}
    assert listed
    assert listed <= visible
    assert (len(visible) == site.interactions.n_users) == sees_all
    hidden = set(map(str, site.interactions.user_labels)) - visible
    assert not any(client in answer.text for client in hidden)


@pytest.mark.parametrize(
    ("path", "given", "status", "line"),
    [
        ("prospects", {"purchases": ["no such thing"]}, 404, "no product named"),
        ("prospects", {"attributes": {"colour": "red"}}, 404, "no client attribute named"),
        ("prospects", {}, 400, "got none that the model knows"),
        ("prospects", {"purchases": ["x"] * 51}, 422, "purchases"),
        ("new-products", {"buyers": ["nobody at all"]}, 404, "Client not found"),
        ("new-products", {"attributes": {"family": "Sausages"}}, 400, "got none that the model knows"),
    ],
)
def test_a_program_is_told_what_is_wrong(
    site: Site, path: str, given: dict[str, object], status: int, line: str
) -> None:
    answer = site.program("ana").post(f"{API}/{path}", json=given)
    assert answer.status_code == status
    assert line in answer.json()["error"]


def test_a_hidden_buyer_is_refused_like_an_unknown_one(site: Site) -> None:
    hidden = site.clients("sue")[0]
    answers = [site.program("ana").post(f"{API}/new-products", json={"buyers": [name]}) for name in (hidden, "nobody")]
    assert [(answer.status_code, answer.text) for answer in answers] == [(404, answers[0].text)] * 2
