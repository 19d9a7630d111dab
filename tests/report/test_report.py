"""Reports: one page that needs nothing else, shows what the model says, and no client who is to be hidden."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from ocular import Advisor, Interactions, OCuLaR, plots
from ocular.explain.calibration import Calibration
from ocular.report import client_report, model_report

VOID = {"meta", "img", "source", "br"}
OURS = {
    "html", "head", "meta", "title", "style", "body", "footer", "h1", "h2", "h3", "section", "header", "ul", "li", "b",
    "p", "div", "bdi", "span", "picture", "source", "img", "table", "thead", "tbody", "tr", "th", "td", "br",
}  # fmt: skip


class Page(HTMLParser):
    """What a browser would see; every tag must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def check(self) -> None:
        """Our own tags only, nothing that runs, nothing that is loaded."""
        assert set(self.tags) <= OURS
        for name, value in self.attributes:
            assert not name.startswith("on")
            assert name not in {"href", "action", "style"}
            if name in {"src", "srcset"}:
                assert re.match(r"data:image/png;base64,iVBORw0KGgo[A-Za-z0-9+/]+=*$", str(value))


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Pictures take long: each call is kept, and an empty figure drawn instead."""
    from matplotlib.figure import Figure

    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    for name in ("plot_evidence", "plot_matrix", "plot_coclusters", "plot_reliability"):

        def draw(*arguments: Any, name: str = name, **options: Any) -> Figure:
            calls.append((name, arguments, options))
            return Figure(figsize=(1, 1))

        monkeypatch.setattr(plots, name, draw)
    return calls


NASTY = ["<script>alert(1)</script>", "</section><h1>x", '"><img src=x onerror=alert(1)>', "a\nb & c", "שלום", "🚲 `|`"]


@pytest.fixture(scope="module")
def nasty() -> OCuLaR:
    """Names that try to be markup wherever a name can stand."""
    R = np.zeros((6, 6), dtype=int)
    R[:3, :3] = R[3:, 3:] = 1
    R[0, 2] = R[3, 5] = 0
    users, items = np.nonzero(R)
    sides = np.array(["<u>in", "<u>in", "<u>in", "<i>out", "<i>out", "<i>out"], dtype=object)
    history = Interactions.from_pairs(
        users, items, user_labels=NASTY, item_labels=[f"{name} p" for name in NASTY], price=np.full(len(users), 3.0),
        currency="<s>", user_attributes={"<th>kind": sides}, item_attributes={"<td>family": sides},
    )  # fmt: skip
    return OCuLaR(2, 0.1, tol=0.0, max_iter=60, random_state=0).fit(history)


def recommended(model: OCuLaR, client: Any, n: int = 3) -> tuple[Advisor, Sequence[Any]]:
    advisor = Advisor(model)
    return advisor, advisor.recommend(client, n)


def test_a_client_report_says_what_the_model_says(model: OCuLaR, drawn: list[Any]) -> None:
    advisor, found = recommended(model, "Client 0 GmbH")
    page = Page(client_report(advisor, "Client 0 GmbH", found))
    page.check()
    said = " ".join(page.text.split())
    for number, each in enumerate(found, 1):
        assert f"{number}. {each.product}" in said
        assert f"confidence {each.confidence:.2f}" in said
        for line in each.text().splitlines():
            assert line.removeprefix("- ") in said
    for item in model.interactions_.by_user[0]:
        assert f"Produkt №{item}" in said
    assert f"Purchase history ({len(model.interactions_.by_user[0])})" in said
    assert page.tags.count("picture") == len(found) > 0
    assert {name for name, _, _ in drawn} == {"plot_evidence"}
    assert [options["theme"] for _, _, options in drawn] == ["light", "dark"] * len(found)
    assert drawn[0][1] == (found[0].explanation,)


def test_hidden_clients_are_nowhere_in_the_report(model: OCuLaR, drawn: list[Any]) -> None:
    advisor, found = recommended(model, "Client 0 GmbH", 4)
    html = client_report(advisor, "Client 0 GmbH", found, show_clients=False)
    assert set(re.findall(r"Client \d+ GmbH", html)) == {"Client 0 GmbH"}
    assert "e.g." not in html
    assert drawn
    assert all(options["show_clients"] is False for _, _, options in drawn)
    drawn.clear()
    shown = client_report(advisor, "Client 0 GmbH", found)
    assert len(set(re.findall(r"Client \d+ GmbH", shown))) > 1
    assert all(options["show_clients"] is True for _, _, options in drawn)


def test_hit_rate_price_and_attributes(nasty: OCuLaR) -> None:
    advisor, found = recommended(nasty, NASTY[0], 1)
    before = " ".join(Page(client_report(advisor, NASTY[0], found)).text.split())
    assert "Chance to buy 25%" not in before
    nasty.calibration_ = Calibration(np.array([0.0]), np.array([0.5]), np.array([400]), np.array([100]))
    try:
        advisor, found = recommended(nasty, NASTY[0], 1)
        said = " ".join(Page(client_report(advisor, NASTY[0], found)).text.split())
    finally:
        nasty.calibration_ = None
    assert "Chance to buy 25%" in said
    assert "<th>kind <u>in" in said


def test_what_is_not_known_of_a_client_is_not_shown() -> None:
    history = Interactions.from_pairs(
        [0, 0, 1, 1], [0, 1, 0, 1], user_labels=["Acme", "Bolt"],
        user_attributes={"country": np.array([None, "Peru"], dtype=object), "staff": np.array([np.nan, 5.0])},
    )  # fmt: skip
    model = OCuLaR(1, 0.1, tol=0.0, max_iter=20, random_state=0).fit(history)
    said = Page(client_report(Advisor(model), "Acme", [])).text
    assert "The model has no reason to recommend anything to this client." in said
    assert "country" not in said
    assert "nan" not in said
    assert "staff" in Page(client_report(Advisor(model), "Bolt", [])).text


def test_numbered_products_are_items_in_a_report(biased: OCuLaR) -> None:
    advisor, found = recommended(biased, 0, 1)
    said = " ".join(Page(client_report(advisor, 0, found)).text.split())
    assert f"1. Item {found[0].product}" in said
    assert said.startswith("Client 0")


def test_names_are_never_markup(nasty: OCuLaR) -> None:
    for client in NASTY:
        advisor, found = recommended(nasty, client)
        page = Page(client_report(advisor, client, found))
        page.check()
        assert " ".join(client.split()) in page.text
    page = Page(model_report(nasty, nasty.coclusters()))
    page.check()
    for name in NASTY:
        assert f"{' '.join(name.split())} p" in page.text


def test_a_model_report_lists_the_coclusters(model: OCuLaR, drawn: list[Any]) -> None:
    coclusters = model.coclusters()
    html = model_report(model, coclusters)
    page = Page(html)
    page.check()
    said = " ".join(page.text.split())
    assert f"{model.interactions_.nnz:,} client–product pairs" in said
    rows = re.findall(r"<tr>\s*<td class=\"n\">(\d+)</td>.*?</tr>", html, flags=re.DOTALL)
    by_share = sorted(coclusters, key=lambda cocluster: -cocluster.share)
    assert [int(row) for row in rows] == [cocluster.index for cocluster in by_share]
    for cocluster in coclusters:
        assert cocluster.label in said
        assert f"{100 * cocluster.density:.0f}%" in said
        assert f"{100 * cocluster.share:.1f}%" in said
        assert f"Produkt №{cocluster.items[0]}" in said
        assert f"Client {cocluster.users[0]} GmbH" in said
        assert f"and {len(cocluster.users) - 6} more" in said
    assert "How reliable the model score is" not in said
    assert {name for name, _, _ in drawn} == {"plot_matrix", "plot_coclusters"}


def test_a_model_report_tells_averages_of_the_members_it_lists(model: OCuLaR) -> None:
    for probability in (None, 0.9):
        coclusters = model.coclusters(probability)
        said = " ".join(Page(model_report(model, coclusters)).text.split())
        per_client = sum(len(cocluster.users) for cocluster in coclusters) / 60
        per_product = sum(len(cocluster.items) for cocluster in coclusters) / 40
        assert f"a client is in {per_client:.1f} of them, a product in {per_product:.1f}" in said


def test_a_model_report_shows_what_confidences_are_worth(named: Interactions, drawn: list[Any]) -> None:
    model = OCuLaR(4, 0.5, tol=0.0, max_iter=20, random_state=0).fit(named)
    means, counts, hits = np.array([0.2, 0.7]), np.array([90, 60]), np.array([9, 30])
    model.calibration_ = Calibration(np.array([0.1, 0.4]), means, counts, hits, 0.25, 20)
    said = " ".join(Page(model_report(model, model.coclusters())).text.split())
    assert "25% of the purchases were hidden from a second fit, which made 20 recommendations" in said
    shown = [(arguments, options["theme"]) for name, arguments, options in drawn if name == "plot_reliability"]
    assert shown == [((model,), "light"), ((model,), "dark")]


def test_a_model_without_coclusters_has_a_report() -> None:
    model = OCuLaR(2, 1e6, tol=0.0, max_iter=10, random_state=0).fit(np.eye(4, dtype=int))
    assert model.coclusters() == []
    Page(model_report(model, [])).check()


def test_a_report_has_reasons_of_all_kinds_and_hides_clients_in_them(named: Interactions) -> None:
    weights = {"links": 0.5, "peers": 2.0, "link_regularization": 5.0}
    advisor = Advisor(OCuLaR(4, 0.5, tol=1e-3, random_state=0, **weights).fit(named))
    kinds, told = set(), ""
    for user in range(0, 60, 6):
        client = named.user_labels[user]
        found = advisor.recommend(client, n=3)
        kinds |= {reason.kind for each in found for reason in each.explanation.summary().shown_reasons}
        Page(client_report(advisor, client, found)).check()
        page = Page(client_report(advisor, client, found, show_clients=False))
        told += page.text
        assert not [name for name in named.user_labels if name != client and name in page.text.replace(client, "")]
    assert kinds == {"pattern", "links", "peers"}
    assert "often buy Produkt" in told
    assert re.search(r"\d of the 10 clients most similar to Client \d+ GmbH owns? Produkt", told)
