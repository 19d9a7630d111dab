"""Names that managers give to patterns: shown everywhere, kept over refits, audited and refused where they must be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sites import Site, both_databases, text_of

from ocular import Interactions, OCuLaR, load
from ocular.web.pattern_names import MIN_ALIKE, PatternNames, similarity
from ocular.web.tables import PatternName

OpenSite = Callable[..., Site]
NAME = "Branch offices & <b>print</b>"


def rename(site: Site, number: int, name: str, who: str = "max") -> int:
    return site.browser(who).submit("/pattern/name", number=number, name=name).status_code


def label(site: Site, number: int) -> str:
    return site.services.served.pattern_label(number)


@both_databases
def test_a_name_is_shown_everywhere(site: Site) -> None:
    served, browser = site.services.served, site.browser("ana")
    number = max(served.patterns, key=lambda n: served.patterns[n].share)
    automatic = label(site, number)
    assert rename(site, number, f"  {NAME} ") == 303
    assert label(site, number) == NAME
    for address in ("/patterns", f"/pattern?number={number}", "/patterns/tour", f"/patterns/tour?number={number}"):
        page = browser.get(address)
        assert NAME in text_of(page)
        assert "<b>print</b>" not in page.text  # escaped
        assert f"<bdi>{automatic}</bdi>" not in text_of(page)
    assert NAME in {each["label"] for each in site.program("ana").get("/api/v1/patterns").json()}
    (entry,) = site.audited("pattern renamed")
    assert (entry.name, entry.subject) == ("max", f"{automatic} → {NAME}")
    related = [n for n, p in served.patterns.items() if number in {overlap.cocluster for overlap in p.overlaps}]
    assert NAME in text_of(browser.get("/pattern", params={"number": related[0]}))
    reasons = [
        reason["label"]
        for client in site.clients("ana")
        for each in site.program("ana").get("/api/v1/recommendations", params={"client": client}).json()
        for reason in each["reasons"]
        if reason["pattern"] == number
    ]
    assert set(reasons) == {NAME}


def test_an_empty_name_brings_the_automatic_one_back(site: Site) -> None:
    number = next(iter(site.services.served.patterns))
    automatic = label(site, number)
    rename(site, number, "One")
    rename(site, number, "Two")
    assert site.count(PatternName) == 1
    assert "Use the automatic name" in site.browser("max").get("/pattern", params={"number": number}).text
    rename(site, number, " ")
    assert label(site, number) == automatic
    assert site.count(PatternName) == 0


def test_two_patterns_have_two_names(site: Site) -> None:
    first, second = list(site.services.served.patterns)[:2]
    rename(site, first, "Shops")
    answer = site.browser("max").submit("/pattern/name", number=second, name="SHOPS")
    assert answer.status_code == 409
    assert "Another pattern is called SHOPS" in answer.text
    assert rename(site, first, "Shops") == 303  # the same again is no conflict
    assert rename(site, second, "Offices") == 303
    assert (label(site, first), label(site, second)) == ("Shops", "Offices")


@pytest.mark.parametrize(("name", "status"), [("x" * 80, 303), ("x" * 81, 400), ("x" * 5000, 422)])
def test_a_name_has_a_length(site: Site, name: str, status: int) -> None:
    assert rename(site, next(iter(site.services.served.patterns)), name) == status
    assert site.count(PatternName) == (status == 303)


def test_a_name_stands_on_one_line(site: Site) -> None:
    number = next(iter(site.services.served.patterns))
    rename(site, number, "two\r\nlines \u202eturned")
    assert label(site, number) == "two lines turned"


def test_what_is_no_pattern_gets_no_name(site: Site) -> None:
    assert rename(site, 999, "Shops") == 404
    assert rename(site, next(iter(site.services.served.patterns)), "Shops", who="ana") == 403
    assert site.count(PatternName) == 0
    number = next(iter(site.services.served.patterns))
    assert "Rename" not in site.browser("ana").get("/pattern", params={"number": number}).text


def test_a_name_of_another_process_is_seen_when_the_copy_expires(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    served, names = site.services.served, site.services.pattern_names
    number = next(iter(served.patterns))
    before = label(site, number)
    PatternNames(site.database).rename(served, site.visitor("max"), number, "Shops")  # as another process would
    assert label(site, number) == before
    assert names._given is not None
    monkeypatch.setattr("ocular.web.pattern_names.time.monotonic", lambda: names._given.expires + 1)  # type: ignore[union-attr]
    assert label(site, number) == "Shops"


def test_a_name_goes_with_its_pattern_to_another_number(
    open_site: OpenSite, companies: Interactions, tmp_path: Path
) -> None:
    """Another start finds nearly the same patterns in another order."""
    folder = tmp_path / "models"
    OCuLaR(6, 0.3, tol=1e-4, max_iter=500, random_state=0).fit(companies).save(folder / "first")
    site = open_site(models=folder)
    served = site.services.served
    for number in served.patterns:
        rename(site, number, f"Pattern that was {number}")
    named = {n: [str(companies.item_labels[i]) for i in p.items[:20]] for n, p in served.patterns.items()}
    other = OCuLaR(6, 0.3, tol=1e-4, max_iter=500, random_state=3).fit(companies)
    other.save(folder / "second")
    site.services.registry.refresh()
    now = site.services.served
    assert now.version != served.version
    followed = 0
    for number, pattern in now.patterns.items():
        products = [str(companies.item_labels[i]) for i in pattern.items[:20]]
        best = max(named, key=lambda before: similarity(named[before], products))
        alike = similarity(named[best], products)
        if alike > 0.8:
            followed += 1
            assert now.pattern_label(number) == f"Pattern that was {best}"
        if alike < MIN_ALIKE:
            assert now.pattern_label(number) == pattern.label
    assert followed > 1
    assert len({now.pattern_label(number) for number in now.patterns}) == len(now.patterns)


def test_a_name_of_a_pattern_that_is_gone_names_no_other(site: Site) -> None:
    served = site.services.served
    with site.database.writing() as transaction:
        user = site.visitor("max").user
        transaction.add(PatternName(name="Gone", products=json.dumps(["no", "such", "products"]), user_id=user.id))
    site.services.pattern_names._given = None
    assert "Gone" not in {served.pattern_label(number) for number in served.patterns}


def test_the_first_products_count_most() -> None:
    before = ["a", "b", "c", "d"]
    assert similarity(before, ["a", "b", "x", "y"]) > similarity(before, ["x", "y", "c", "d"])
    assert similarity(before, list(reversed(before))) < 1
    assert similarity([], []) == 0


def test_a_model_outside_of_the_application_keeps_its_labels(first_model: Path) -> None:
    model = load(first_model / "first")
    assert all(pattern.label for pattern in model.coclusters())
    labels = [pattern.label for pattern in model.coclusters()]
    assert len(set(labels)) == len(labels)
