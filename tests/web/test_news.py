"""What a refit changes for one's clients: new, dropped and moved recommendations, each with a reason that is true."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sites import PEOPLE, Site, both_databases, say, text_of
from sqlalchemy import select

from ocular import Interactions, OCuLaR
from ocular.web.model_changes import DROPPED, MOVED, NEW, Changes
from ocular.web.news import news_page
from ocular.web.opportunities import DEPTH
from ocular.web.tables import ModelChanges

OpenSite = Callable[..., Site]
PARAMETERS = {"n_coclusters": 6, "regularization": 0.3, "tol": 1e-4, "max_iter": 500, "random_state": 0}

NONE_CLOSED = np.empty((0, 2), dtype=np.int64)


@pytest.fixture(scope="module")
def second_model(companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A refit after every fifth client bought what was recommended first, and one product left the catalog."""
    first = OCuLaR(**PARAMETERS).fit(companies)
    users = np.arange(0, companies.n_users, 5)
    top = first.recommend(users, N=1)[0][:, 0]
    pairs = {*zip(companies.pair_users.tolist(), companies.by_user.indices.tolist(), strict=True)}
    pairs |= {*zip(users.tolist(), top.tolist(), strict=True)}
    gone = companies.n_items - 1
    rows, items = zip(*sorted(pair for pair in pairs if pair[1] != gone), strict=True)
    data = Interactions.from_pairs(
        rows, items, user_labels=companies.user_labels.tolist(), item_labels=companies.item_labels.tolist()[:gone]
    )
    folder = tmp_path_factory.mktemp("refit") / "second"
    OCuLaR(**PARAMETERS).fit(data).save(folder)
    return folder


@pytest.fixture
def models(first_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first_model, tmp_path / "models"))


@pytest.fixture
def site(open_site: OpenSite, models: Path) -> Site:
    return open_site(models=models)


def swap(site: Site, second_model: Path) -> Changes:
    """Put the second model beside the first, and wait until it is compared."""
    shutil.copytree(second_model, site.settings.models / "second")
    site.services.registry.refresh()
    site.services.news.wait()
    changes = site.services.served.comparison.changes
    assert changes is not None
    return changes


def lists(model: OCuLaR, labels: list[str]) -> list[list[str]]:
    users = np.array([model.interactions_.user_rows[label] for label in labels])
    best = model.recommend(users, N=DEPTH)[0]
    return [[str(model.interactions_.item_labels[item]) for item in row if item >= 0] for row in best]


@both_databases
def test_what_came_and_went_is_what_the_two_lists_say(site: Site, second_model: Path) -> None:
    old = site.services.served.advisor.model
    changes = swap(site, second_model)
    served = site.services.served
    labels = [str(label) for label in served.interactions.user_labels]
    before, now = lists(old, labels), lists(served.advisor.model, labels)
    found: dict[int, set[tuple[str, str]]] = {NEW: set(), DROPPED: set(), MOVED: set()}
    names = [*map(str, served.interactions.item_labels), *changes.gone]
    for row in changes.rows:
        found[int(row["kind"])].add((labels[row["user"]], names[row["item"]]))
    came = {(label, item) for label, a, b in zip(labels, before, now, strict=True) for item in set(b) - set(a)}
    went = {(label, item) for label, a, b in zip(labels, before, now, strict=True) for item in set(a) - set(b)}
    moved = {
        (label, item)
        for label, a, b in zip(labels, before, now, strict=True)
        for item in set(a) & set(b)
        if abs(a.index(item) - b.index(item)) >= 2
    }
    assert (found[NEW], found[DROPPED], found[MOVED]) == (came, went, moved)
    assert came
    users = np.arange(served.interactions.n_users)
    is_new = served.is_new(users[:, None], served.opportunities._products)
    assert int(is_new.sum()) == len(came)
    assert bool(served.is_new(users[0], 0)) == ((labels[0], names[0]) in came)


def test_nothing_is_new_for_the_first_model(site: Site) -> None:
    site.services.news.wait()
    served = site.services.served
    assert not served.is_new(np.arange(3), np.arange(3)).any()
    assert "Nothing to compare yet" in site.browser("ana").get("/news").text


@pytest.mark.parametrize("kind", ["new", "dropped", "moved"])
def test_every_change_has_a_reason(site: Site, second_model: Path, kind: str) -> None:
    changes = swap(site, second_model)
    served = site.services.served
    everybody = np.arange(served.interactions.n_users)
    page = news_page(served, changes, everybody, NONE_CLOSED, kind=kind, length=10_000)
    assert len(page.items) == page.counts[kind]
    assert sum(count for _, count in page.reasons) == page.counts[kind]
    assert all(item.why.endswith(".") for item in page.items)
    for item in page.items:
        bought = [served.product_name(str(served.interactions.item_labels[i])) for i in changes.bought_by(
            served.interactions.user_rows[item.client])]  # fmt: skip
        if "They bought" in item.why:
            assert any(name in item.why for name in bought)
        if item.why.startswith("Bought since"):
            assert item.product_name in bought
        if item.product is None:
            assert item.why == "No longer in the catalog."


def test_the_page_shows_ones_own_clients_only(site: Site, second_model: Path) -> None:
    swap(site, second_model)
    for name in ("ana", "max"):
        browser = site.browser(name)
        for kind in ("new", "dropped", "moved"):
            for fields in ({}, {"seller": "sue"}):
                page = text_of(browser.get("/news", params={"kind": kind} | fields))
                assert not [client for client in site.clients("sue") if client in page]
    assert any(client in text_of(site.browser("sue").get("/news")) for client in site.clients("sue"))
    whole = text_of(site.browser("max").get("/news", params={"seller": "ben"}))
    assert not [client for client in site.clients("ana") if client in whole]


def test_what_is_closed_is_not_new(site: Site, second_model: Path) -> None:
    changes = swap(site, second_model)
    served = site.services.served
    everybody = np.arange(served.interactions.n_users)
    row = changes.rows[changes.rows["kind"] == NEW][0]
    pair = (int(row["user"]), int(row["item"]))
    counts = [news_page(served, changes, everybody, closed).counts["new"] for closed in (NONE_CLOSED, np.array([pair]))]
    assert counts[0] - counts[1] == 1


@both_databases
def test_news_are_unseen_until_the_page_is_opened(site: Site, second_model: Path) -> None:
    swap(site, second_model)
    served, news, services = site.services.served, site.services.news, site.services
    mine = services.visibility.clients_of(served, site.visitor("ana"))
    assert len(mine) == len(PEOPLE["ana"].clients)
    unseen = news.n_unseen(served, site.visitor("ana"), mine, NONE_CLOSED)
    assert unseen > 0
    new = served.comparison.changes.rows
    new = new[(new["kind"] == NEW) & np.isin(new["user"], mine)][0]
    closed = np.array([[int(new["user"]), int(new["item"])]])
    assert news.n_unseen(served, site.visitor("ana"), mine, closed) == unseen - 1
    assert f"New <b>{unseen}</b>" in site.browser("ana").get("/news").text
    assert news.n_unseen(served, site.visitor("ana"), mine, NONE_CLOSED) == 0
    assert site.visitor("ben").user.news == ""


@both_databases
def test_the_comparison_outlives_the_process_and_the_old_model(
    open_site: OpenSite, site: Site, second_model: Path
) -> None:
    changes = swap(site, second_model)
    shutil.rmtree(site.settings.models / "first")
    again = open_site(models=site.settings.models)
    again.services.news.wait()
    read = again.services.served.comparison.changes
    assert read is not None
    assert read.rows.tobytes() == changes.rows.tobytes()
    assert (read.gone, read.renamed, read.since) == (changes.gone, changes.renamed, changes.since)


def test_after_a_start_the_next_older_model_is_compared(
    open_site: OpenSite, models: Path, second_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(second_model, models / "second")
    broken = models / "between"
    shutil.copytree(models / "first", broken)
    (broken / "manifest.json").write_text(json.dumps({"broken": True}), "utf-8")
    site = open_site(models=models)
    site.services.news.wait()
    changes = site.services.served.comparison.changes
    assert changes is not None
    assert changes.since.startswith("first-")


def test_only_the_names_of_older_comparisons_are_kept(site: Site, second_model: Path) -> None:
    swap(site, second_model)
    version = site.services.served.version
    with site.database.writing() as transaction:
        transaction.add(ModelChanges(version="old", renamed='{"A": "B"}', changes=b"old"))
    with site.database.reading() as transaction:
        stored = transaction.get(ModelChanges, version)
    assert stored is not None
    site.services.news._store(version, Changes.from_bytes(stored.changes, {}))
    with site.database.reading() as transaction:
        rows = {row.version: row for row in transaction.scalars(select(ModelChanges))}
    assert rows["old"].changes == b""
    assert rows["old"].renamed == '{"A": "B"}'
    assert rows[version].changes


def test_models_that_share_no_client_leave_nothing_to_compare(site: Site, tmp_path: Path) -> None:
    data = Interactions.from_pairs([0, 0, 1, 1], [0, 1, 0, 1], user_labels=["x", "y"], item_labels=["p", "q"])
    OCuLaR(2, 0.1, random_state=0).fit(data).save(site.settings.models / "other")
    site.services.registry.refresh()
    site.services.news.wait()
    assert site.services.served.comparison.done
    assert "Nothing to compare yet" in site.browser("root").get("/news").text


def test_results_survive_the_refit(site: Site, second_model: Path) -> None:
    say(site, site.browser("ana"), site.clients("ana")[0], "won")
    before = text_of(site.browser("max").get("/performance/rows"))
    swap(site, second_model)
    after = text_of(site.browser("max").get("/performance/rows"))
    assert "1 recommendation ·" in before
    assert "1 recommendation ·" in after
