"""Pages, the API and feedback with reasons of three kinds: patterns, products bought together, similar clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import OpenSite
from sites import PEOPLE, Browser, Site, rows_of, text_of

from ocular import Interactions, OCuLaR
from ocular.explain.reasons import Reason
from ocular.web.settings import Names

LABELS = {"pattern": "Pattern", "links": "Products bought together", "peers": "Similar clients"}


@pytest.fixture(scope="module")
def models(companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    weights = {"links": 1.0, "peers": 1.0, "link_regularization": 2.0, "peer_regularization": 2.0}
    OCuLaR(6, 0.3, tol=1e-4, max_iter=500, random_state=0, **weights).fit(companies).save(folder / "first")
    return folder


@pytest.fixture
def site(open_site: OpenSite, models: Path) -> Site:
    return open_site(models=models)


def strongest_of(site: Site, clients: list[str], kind: str) -> tuple[str, str, Reason]:
    """A client, a product that is recommended for a reason of this kind, and the reason."""
    served = site.services.served
    for client in clients:
        for found in served.advisor.recommend(client, 5):
            first = found.explanation.strongest_reason
            if first is not None and first.kind == kind:
                return client, served.product_of(found), first
    raise AssertionError(f"nothing is recommended by {kind}")


def all_clients(site: Site) -> list[str]:
    return [str(label) for label in site.interactions.user_labels]


@pytest.mark.parametrize("kind", ["pattern", "links", "peers"])
def test_a_page_has_the_label_and_the_sentence_of_each_kind(site: Site, kind: str) -> None:
    client, product, reason = strongest_of(site, all_clients(site), kind)
    data, root = site.interactions, site.browser("root")
    page = text_of(root.get("/recommendation", params={"client": client, "product": product}))
    assert f"<h3>{LABELS[kind]}" in page
    card = text_of(root.get("/client", params={"name": client})).partition(f"<bdi>{product}</bdi></a>")[2]
    pitch = card.partition('<p class="pitch">')[2].partition("</p>")[0]
    first = site.interactions.item_name(reason.owned_items[0])
    if kind == "pattern":
        said = f"{len(reason.similar_users)} of {reason.group} similar clients bought this."
        assert f"<p>{pitch}</p>" in page
        assert pitch.startswith(f"Owns {first}")
    elif kind == "links":
        bought, owners = reason.counts[0]
        assert f"<p>Clients who own {first}" in page
        assert f"often buy {product}: {bought} of {owners}" in page
        said = f"{bought} of {owners} clients who own {first} bought this ("
    else:
        n_owners = reason.n_peers - len(reason.other_users)
        verb = "owns" if n_owners == 1 else "own"
        start = f"<p>{n_owners} of the {reason.n_peers} clients most similar to {client} {verb} {product}: "
        assert start + f"{data.user_name(reason.similar_users[0])} ({reason.in_common[0]} product" in page
        said = f"{n_owners} of the {reason.n_peers} most similar clients {verb} this."
    assert said in pitch
    if kind != "pattern":
        assert "similar clients bought this" not in page.partition("</h3>")[2].partition("<table")[0]


def test_the_matrix_of_links_has_the_products_it_names(site: Site) -> None:
    client, product, reason = strongest_of(site, all_clients(site), "links")
    answer = site.program("root").get("/api/v1/explanation", params={"client": client, "product": product}).json()
    data, matrix = site.interactions, answer["reasons"][0]["matrix"]
    assert matrix["products"] == [str(data.item_name(item)) for item in [*reason.named_items, data.item_rows[product]]]
    own, *rows = matrix["rows"]
    assert own["bought"] == [True] * len(reason.named_items) + [False]
    assert all(row["bought"][0] for row in rows)  # all have the first product that it names
    assert {row["bought"][-1] for row in rows} <= {True, False}


def test_a_program_reads_kind_contribution_and_share(site: Site) -> None:
    root, kinds = site.program("root"), set()
    for client in all_clients(site)[:20]:
        for answer in root.get("/api/v1/recommendations", params={"client": client}).json():
            explanation = site.services.served.advisor.explain(client, answer["product"]).explanation
            summary = explanation.summary()
            assert answer["kind"] == summary.shown_reasons[0].kind
            assert (answer["pattern"] is None) == (answer["kind"] != "pattern")
            assert answer["shown_share"] + answer["hidden_share"] + answer["rest_share"] == pytest.approx(1)
            for told, reason in zip(answer["reasons"], summary.shown_reasons, strict=True):
                kinds.add(told["kind"])
                assert told["contribution"] == pytest.approx(reason.contribution)
                assert told["share"] == pytest.approx(reason.contribution / summary.affinity)
                assert told["kind_label"] == LABELS[reason.kind]
                assert [(each["bought_by"], each["owners"]) for each in told["links"]] == reason.counts
                assert [each["in_common"] for each in told["peers"]] == reason.in_common[: len(told["peers"])]
                assert bool(told["peers"]) == (reason.kind == "peers")
                assert told["bought_by"] <= told["group"]
    assert kinds == {"pattern", "links", "peers"}


@pytest.mark.parametrize(("names", "who"), [(Names.TEAM, "ana"), (Names.NOBODY, "ana"), (Names.TEAM, "sue")])
def test_hidden_names_stay_hidden_in_reasons_of_all_kinds(
    open_site: OpenSite, models: Path, names: Names, who: str
) -> None:
    """What pages and the API say to a seller names no client whose name the seller may not read."""
    site = open_site(models=models, names=names)
    readable = set(PEOPLE[who].clients)
    if names is Names.TEAM:
        readable |= {row for person in PEOPLE.values() if person.team == PEOPLE[who].team for row in person.clients}
    hidden = [str(site.interactions.user_name(row)) for row in range(60) if row not in readable]
    by_peers, browser, program = 0, site.browser(who), site.program(who)
    for client in site.clients(who):
        texts = [text_of(browser.get("/client", params={"name": client}))]
        for answer in (response := program.get("/api/v1/recommendations", params={"client": client})).json():
            by_peers += any(reason["kind"] == "peers" for reason in answer["reasons"])
            texts.append(
                text_of(browser.get("/recommendation", params={"client": client, "product": answer["product"]}))
            )
        for text in [*texts, response.text]:
            assert not [name for name in hidden if name in text]
    assert by_peers > 5


def test_results_keep_the_kinds_apart(site: Site) -> None:
    ana, mine = site.browser("ana"), site.clients("ana")
    for kind in ("links", "peers"):
        client, product, _ = strongest_of(site, mine, kind)
        assert ana.submit("/feedback", client=client, product=product, status="won").status_code == 303
    rows = {row[0] for row in rows_of(site.browser("max").get("/performance").text) if row}
    assert {"Products bought together", "Similar clients"} <= rows
    stored = site.program("max").get("/api/v1/feedback").json()
    assert {(row["pattern"], row["label"]) for row in stored} == {
        (None, "Products bought together"),
        (None, "Similar clients"),
    }


def test_supposed_purchases_have_all_kinds_too(site: Site) -> None:
    root: Browser = site.browser("root")
    client, product, reason = strongest_of(site, all_clients(site), "peers")
    also = next(i for i in site.interactions.by_user[reason.similar_users[0]].tolist() if i not in reason.owned_items)
    parameters = {"client": client, "product": product, "also": str(site.interactions.item_labels[also])}
    assert root.get("/recommendation", params=parameters).status_code == 200
