"""People read names; addresses, forms and programs use the labels of the purchases."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from sites import Site, say, text_of

from ocular import Interactions

OpenSite = Callable[..., Site]


@pytest.fixture
def named(open_site: OpenSite, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site whose clients and products have names besides their labels."""
    monkeypatch.setattr(Interactions, "user_name", lambda self, user: f"Known as {self.user_labels[user]}")
    monkeypatch.setattr(Interactions, "item_name", lambda self, item: f"Described as {self.item_labels[item]}")
    return open_site()


def test_pages_show_names_and_link_by_labels(named: Site) -> None:
    client, ana = named.clients("ana")[2], named.browser("ana")
    product = say(named, ana, client, "pursuing")
    say(named, ana, client, "lost", place=1)
    pair = {"client": client, "product": product}
    pages = [
        ana.get("/accounts", params={"search": f"known as {client}"}), ana.get("/client", params={"name": client}),
        ana.get("/recommendation", params=pair), ana.get("/calls"), named.browser("max").get("/team"),
        ana.post("/feedback", data=pair | {"status": "won", "csrf": "of another session"}),
    ]  # fmt: skip
    assert [page.status_code for page in pages] == [200, 200, 200, 200, 200, 403]
    for page in pages:
        written = re.findall(r"<bdi>([^<]*)</bdi>", html.unescape(page.text))
        for kind, label in (("Known", client), ("Described", product)):
            assert f"{kind} as {label}" in written
            assert label not in written
    for link in re.findall(r'href="([^"]+)"', pages[0].text + pages[1].text + pages[3].text):
        if link.startswith(("/client?", "/recommendation?")):
            assert ana.get(html.unescape(link)).status_code == 200


def test_a_product_is_found_by_its_name_or_label(named: Site) -> None:
    served, label = named.services.served, str(named.interactions.item_labels[3])
    assert served.opportunities.find_products(label).tolist() == [3]
    assert 3 in served.opportunities.find_products(f"described as {label}").tolist()
    first = named.browser("ana").get("/products").json()[3]
    assert first == {"label": label, "name": f"Described as {label}"}


def test_programs_get_both(named: Site) -> None:
    client, program = named.clients("ana")[0], named.program("ana")
    answer = program.get("/api/v1/recommendations", params={"client": client, "n": 1}).json()[0]
    assert (answer["client"], answer["client_name"]) == (client, f"Known as {client}")
    assert answer["product_name"] == f"Described as {answer['product']}"
    for reason in answer["reasons"]:
        assert all(name.startswith("Described as ") for name in reason["owned_products"])
        assert all(name.startswith("Known as ") for name in reason["similar_clients"])
        assert all(name.startswith("Described as ") for name in reason["matrix"]["products"])
    entry = program.get("/api/v1/clients").json()["clients"][0]
    assert entry["client_name"] == f"Known as {entry['client']}"
    pair = {"client": answer["client"], "product": answer["product"], "seal": answer["seal"]}
    assert program.post("/api/v1/feedback", json=pair | {"status": "won"}).status_code == 201
    assert "Known as" not in text_of(named.browser("max").get("/team/feedback.csv"))
