"""The pages for a prospect and a new product: lists with reasons, of clients that the visitor may see."""

from __future__ import annotations

import pytest
from conftest import OpenSite
from sites import Site, rows_of, text_of


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    return open_site()


def test_a_prospect_gets_recommendations_with_reasons(site: Site) -> None:
    industry = str(site.interactions.user_attributes["industry"][0])
    page = text_of(site.browser("ana").get("/prospect", params={"attribute.industry": industry}))
    expected = site.services.served.advisor.recommend_new(attributes={"industry": industry}, n=10)
    rows = rows_of(page)[1:]
    assert [row[0] for row in rows] == [str(each.product) for each in expected]
    assert expected[0].reasons[0].sentence_without_names in page
    assert not any(client in page for client in map(str, site.interactions.user_labels))
    assert f'value="{industry}"' in page


def test_products_that_the_prospect_has(site: Site) -> None:
    products = [str(label) for label in site.interactions.item_labels[:2]]
    page = text_of(site.browser("ana").get("/prospect", params={"has": "\n".join(products)}))
    listed = [row[0] for row in rows_of(page)[1:]]
    assert listed
    assert not set(products) & set(listed)


@pytest.mark.parametrize(("name", "sees_all"), [("ana", False), ("root", True)])
def test_a_new_product_is_offered_to_visible_clients_only(site: Site, name: str, sees_all: bool) -> None:
    family = str(site.interactions.item_attributes["family"][0])
    page = text_of(site.browser(name).get("/new-product", params={"attribute.family": family}))
    listed, own = {row[0] for row in rows_of(page)[1:]}, set(site.clients("ana"))
    assert listed
    assert (listed <= own) != sees_all
    hidden = set(map(str, site.interactions.user_labels)) - own
    assert sees_all or not any(client in page for client in hidden)


def test_a_hidden_client_is_no_buyer_and_is_not_confirmed(site: Site) -> None:
    hidden = next(str(label) for label in site.interactions.user_labels if str(label) not in site.clients("ana"))
    browser = site.browser("ana")
    pages = [text_of(browser.get("/new-product", params={"buyers": name})) for name in (hidden, "nobody at all")]
    assert all('role="alert">there is no such client among yours' in page for page in pages)
    own = site.clients("ana")[0]
    assert own not in {row[0] for row in rows_of(text_of(browser.get("/new-product", params={"buyers": own})))}


@pytest.mark.parametrize(
    ("path", "parameters", "mistake"),
    [
        ("/prospect", {"attribute.colour": "red"}, "no client attribute named"),
        ("/prospect", {"has": "no such thing"}, "no product named"),
        ("/new-product", {"attribute.family": "Sausages"}, "got none that the model knows"),
    ],
)
def test_mistakes_are_told_on_the_page(site: Site, path: str, parameters: dict[str, str], mistake: str) -> None:
    answer = site.browser("root").get(path, params=parameters)
    assert answer.status_code == 200
    assert mistake in text_of(answer)
    assert rows_of(answer.text) == []


def test_both_are_reached_from_the_accounts(site: Site) -> None:
    browser = site.browser("ana")
    for address in ("/prospect", "/new-product"):
        assert f'<a href="{address}">' in browser.get("/accounts").text
        assert '<a href="/" aria-current="true">Accounts</a>' in browser.get(address).text
