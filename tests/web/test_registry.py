"""Which model is served: the newest that is whole; everything else is refused once and changes nothing."""

from __future__ import annotations

import html
import json
import logging
import re
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sites import Browser, Site, rows_of, text_of
from sqlalchemy import select

from ocular import Interactions, OCuLaR
from ocular.artifact import _manifest_digest
from ocular.errors import ArtifactError
from ocular.web.app import create_app
from ocular.web.errors import UnavailableError
from ocular.web.registry import Registry
from ocular.web.settings import Settings
from ocular.web.tables import Feedback

OpenSite = Callable[..., Site]
SECRETS = r"name=.(seal|csrf).*?>"  # new on every page


@pytest.fixture
def models(first_model: Path, tmp_path: Path) -> Path:
    """A folder with one model, to be changed."""
    return Path(shutil.copytree(first_model, tmp_path / "models"))


@pytest.fixture
def registry(models: Path) -> Registry:
    registry = Registry(models)
    registry.refresh()
    assert name_of(registry) == "first"
    return registry


def name_of(registry: Registry) -> str:
    return registry.current.version.rpartition("-")[0]


def soon(hours: int = 1) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def put(models: Path, name: str, created: str | None = None, source: str = "first") -> Path:
    """A copy of a model that says it is newer."""
    path = Path(shutil.copytree(models / source, models / name))
    manifest = json.loads((path / "manifest.json").read_text("utf-8")) | {
        "created": soon() if created is None else created
    }
    manifest["digest"] = _manifest_digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    return path


def flip(file: Path, place: int = -100) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_a_newer_model_is_picked_up(models: Path, registry: Registry) -> None:
    put(models, "second")
    registry.refresh()
    assert name_of(registry) == "second"
    put(models, "old", created="2000-01-01T00:00:00Z")
    registry.refresh()
    assert name_of(registry) == "second"


def test_a_model_is_loaded_once(models: Path, registry: Registry) -> None:
    served = registry.current
    registry.refresh()
    assert registry.current is served


def test_the_version_names_the_folder_and_the_content(models: Path, registry: Registry) -> None:
    before = registry.current.version
    digest = json.loads((models / "first" / "manifest.json").read_text("utf-8"))["digest"]
    assert before == f"first-{digest[:8]}"
    put(models, "second")
    shutil.rmtree(models / "first")
    (models / "second").rename(models / "first")
    registry.refresh()
    assert name_of(registry) == "first"
    assert registry.current.version != before


def test_a_model_may_be_the_folder_itself(models: Path) -> None:
    registry = Registry(models / "first")
    registry.refresh()
    assert name_of(registry) == "first"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: flip(path / "arrays.npz"), "sha256 differs"),
        (lambda path: flip(path / "clients.parquet"), "sha256 differs"),
        (lambda path: (path / "products.parquet").unlink(), "cannot be read"),
        (lambda path: (path / "arrays.npz").write_bytes((path / "arrays.npz").read_bytes()[:1000]), "expected"),
        (lambda path: (path / "manifest.json").write_text('{"format": "ocular-mod'), "manifest cannot be read"),
        (lambda path: (path / "manifest.json").write_text("[]"), "manifest cannot be read"),
        (lambda path: (path / "manifest.json").write_bytes(b"\xff\xff"), "manifest cannot be read"),
        (
            lambda path: (path / "manifest.json").write_text(
                (path / "manifest.json").read_text("utf-8").replace('"ocular-model"', '"ocular-modem"'), "utf-8"
            ),
            "ocular-modem",
        ),
    ],
    ids=["flipped", "flipped-table", "missing", "truncated", "half-manifest", "list", "not-text", "other-format"],
)
def test_a_broken_model_is_refused_once_and_the_old_one_goes_on(
    models: Path, registry: Registry, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object], told: str
) -> None:
    served = registry.current
    damage(put(models, "broken"))
    with caplog.at_level(logging.INFO, "ocular.web"):
        for _ in range(3):
            registry.refresh()
    assert registry.current is served
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "refused the model in broken: " in record.getMessage()
    assert told in record.getMessage()


def test_the_newest_whole_model_is_served_where_the_newest_is_broken(models: Path) -> None:
    put(models, "second")
    flip(put(models, "third", created=soon(2)) / "arrays.npz")
    registry = Registry(models)
    registry.refresh()
    assert name_of(registry) == "second"


def test_folders_without_a_manifest_are_no_models(
    models: Path, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(models, "half")
    (path / "manifest.json").unlink()
    (models / "notes.txt").write_text("not a folder")
    registry.refresh()
    assert caplog.records == []
    assert name_of(registry) == "first"


def test_a_copy_that_was_looked_at_half_way_is_served_when_complete(models: Path, registry: Registry) -> None:
    path = put(models, "second")
    aside = (path / "products.parquet").rename(models / "aside")
    registry.refresh()
    assert name_of(registry) == "first"
    aside.rename(path / "products.parquet")
    registry.refresh()
    assert name_of(registry) == "second"


def test_a_model_that_is_taken_away_is_followed_by_the_one_before(models: Path, registry: Registry) -> None:
    path = put(models, "second")
    registry.refresh()
    shutil.rmtree(path)
    registry.refresh()
    assert name_of(registry) == "first"


@pytest.mark.parametrize("content", ["nothing", "rubbish", "no-folder"])
def test_without_a_model_the_start_is_one_clear_line(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "models"
    if content != "no-folder":
        (folder / "x").mkdir(parents=True)
    if content == "rubbish":
        (folder / "x" / "manifest.json").write_text("{")
    with pytest.raises(ArtifactError) as caught:
        Registry(folder).start()
    message = str(caught.value)
    assert message.startswith(f"expected a model in {folder}, got none that can be read; ")
    assert "\n" not in message
    with pytest.raises(UnavailableError, match="No model is loaded"):
        _ = create_app(Settings(folder)).state.services.served


def test_an_application_without_a_model_is_not_ready(tmp_path: Path) -> None:
    app = create_app(Settings(tmp_path, "sqlite://", allowed_hosts=("testserver",)))
    assert Browser(app).get("/healthz").status_code == 200
    assert Browser(app).get("/readyz").status_code == 503


def test_the_application_takes_a_new_model_by_itself_and_feedback_says_which(open_site: OpenSite, models: Path) -> None:
    site = open_site(models=models, watch=0.05)
    client, program = site.clients("ana")[0], site.program("ana")
    pair = {"client": client, "product": site.open_product(client), "status": "pursuing"}
    assert program.post("/api/v1/feedback", json=pair).status_code == 201
    first = site.services.served.version
    put(models, "second")
    for _ in range(200):
        if site.services.served.version != first:
            break
        time.sleep(0.02)
    second = site.services.served.version
    assert second.startswith("second-")
    assert site.stranger().get("/readyz").json() == {"status": "ready", "model": second}
    assert program.post("/api/v1/feedback", json=pair).status_code == 201
    assert [row["model"] for row in site.program("root").get("/api/v1/feedback").json()] == [first, second]
    assert site.count(Feedback) == 2
    assert second in site.browser("ana").get("/model").text


def test_a_client_unknown_to_the_new_model_is_gone_without_an_error(open_site: OpenSite, models: Path) -> None:
    """Assignments outlive models."""
    site = open_site(models=models)
    client, browser = site.clients("ana")[1], site.browser("ana")
    browser.submit("/feedback", client=client, product=site.open_product(client), status="won")
    kept = site.clients("ana")[0]
    tiny = Interactions.from_pairs(
        [0, 0, 1, 1, 2], [0, 1, 0, 1, 0], user_labels=[kept, "b", "c"], item_labels=["nut", "saw"]
    )
    time.sleep(1.1)  # a manifest says when to the second
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(tiny).save(models / "second")
    site.services.registry.refresh()
    assert site.services.served.version.startswith("second-")
    assert browser.get("/client", params={"name": client}).status_code == 404
    assert browser.get("/client", params={"name": kept}).status_code == 200
    assert "1 client." in browser.get("/accounts").text
    assert client in text_of(site.browser("max").get("/team"))


def test_hidden_folders_are_no_models(models: Path, registry: Registry) -> None:
    """Such as a model that is being written."""
    put(models, ".second.tmp")
    registry.refresh()
    assert name_of(registry) == "first"


@pytest.mark.parametrize("created", ["yesterday", "", "2100-13-01T00:00:00Z"])
def test_a_model_without_a_date_is_refused(
    models: Path, registry: Registry, caplog: pytest.LogCaptureFixture, created: str
) -> None:
    put(models, "second", created=created)
    for _ in range(2):
        registry.refresh()
    assert name_of(registry) == "first"
    (record,) = caplog.records
    assert "refused the model in second: its manifest cannot be read" in record.getMessage()


def test_dates_are_compared_as_dates(models: Path, registry: Registry) -> None:
    put(models, "early", created=datetime.fromisoformat(soon(1)).astimezone(timezone(timedelta(hours=9))).isoformat())
    put(models, "late", created=soon(2))
    registry.refresh()
    assert name_of(registry) == "late"


# ------------------------------------------------------------------------------------------------ in the middle


def tiny_model(models: Path, clients: list[str], products: list[str]) -> None:
    """A newer model of few names."""
    tiny = Interactions.from_pairs([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], user_labels=clients, item_labels=products)
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(tiny).save(models / "tiny")
    path = put(models, "second", source="tiny")
    shutil.rmtree(models / "tiny")
    assert path.exists()


@pytest.mark.parametrize(
    "path",
    ["/", "/client", "/recommendation", "/patterns", "/pattern", "/team", "/calls", "/api/v1/clients",
     "/api/v1/recommendations", "/api/v1/explanation", "/api/v1/patterns"],
)  # fmt: skip
def test_a_request_is_answered_by_one_model_though_another_comes_in_the_middle(
    open_site: OpenSite, models: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    site = open_site(models=models)
    client = site.clients("ana")[0]
    asked = {
        "name": client, "client": client, "product": site.open_product(client),
        "number": str(next(iter(site.services.served.patterns))),
    }  # fmt: skip
    person = site.program("max") if path.startswith("/api") else site.browser("max")
    before = site.services.served
    expected = person.get(path, params=asked).text.replace("\n", "")
    tiny_model(models, ["a", "b", "c"], ["nut", "saw"])
    gate, name = site.services.authenticator, "visitor_of_token" if path.startswith("/api") else "visitor_of_session"
    genuine, reading = getattr(gate, name), site.services.database.reading

    def swap() -> Any:
        site.services.registry.refresh()
        return reading()

    def then_swap(*given: Any) -> Any:
        found = genuine(*given)
        monkeypatch.setattr(site.services.database, "reading", swap)  # with the next look into the database
        return found

    monkeypatch.setattr(gate, name, then_swap)
    site.services.assignments.invalidate()
    answer = person.get(path, params=asked)
    assert site.services.served is not before
    assert answer.status_code == 200, answer.text
    assert re.sub(SECRETS, "", answer.text.replace("\n", "")) == re.sub(SECRETS, "", expected)


def test_feedback_is_kept_with_the_model_it_was_shown_by(open_site: OpenSite, models: Path) -> None:
    site = open_site(models=models)
    client, browser, first = site.clients("ana")[0], site.browser("ana"), site.services.served
    product = site.open_product(client)
    found = first.advisor.explain(client, product)
    form = fields_of(browser.get("/recommendation", params={"client": client, "product": product}).text)
    put(models, "second")
    site.services.registry.refresh()
    assert browser.submit("/feedback", **form | {"status": "won"}).status_code == 303
    assert browser.submit("/feedback", **form | {"status": "won", "seal": "x" + form["seal"]}).status_code == 303
    with site.database.reading() as transaction:
        rows = transaction.scalars(select(Feedback).order_by(Feedback.id)).all()
    number = found.explanation.reasons[0].cocluster
    assert [row.model for row in rows] == [first.version, site.services.served.version]
    assert (rows[0].confidence, rows[0].pattern) == (pytest.approx(found.confidence), number)
    assert rows[0].label == first.patterns[number].label
    told = [row[0] for row in rows_of(site.browser("max").get("/performance").text) if len(row) == 8]
    assert rows[1].label in told  # one pattern, whichever model named it


@pytest.mark.parametrize("way", ["page", "api"])
def test_feedback_on_what_the_model_no_longer_knows_is_kept_if_it_was_shown(
    open_site: OpenSite, models: Path, way: str
) -> None:
    site = open_site(models=models)
    client, version = site.clients("ana")[0], site.services.served.version
    product = site.open_product(client)
    pair = {"client": client, "product": product}
    if way == "page":
        ana, sue, path = site.browser("ana"), site.browser("sue"), "/feedback"
        form = fields_of(ana.get("/client", params={"name": client}).text)
        assert form["product"] == product
    else:
        ana, sue, path = site.program("ana"), site.program("sue"), "/api/v1/feedback"
        form = pair | {"seal": ana.get("/api/v1/recommendations", params={"client": client}).json()[0]["seal"]}
    tiny_model(models, ["a", "b", "c"], ["nut", "saw"])
    site.services.registry.refresh()

    def give(person: Browser, **changes: str) -> int:
        given = form | {"status": "pursuing"} | changes
        if way == "api":
            return person.post(path, json=given).status_code
        return person.submit(path, **{name: value for name, value in given.items() if name != "csrf"}).status_code

    assert [give(ana, seal=""), give(ana, seal="e30=.x"), give(ana, product="nut"), give(sue)] == [404] * 4
    assert site.count(Feedback) == 0
    assert give(ana, note="they called") in {201, 303}
    (row,) = site.program("max").get("/api/v1/feedback").json()
    assert (row["client"], row["product"], row["model"], row["note"]) == (client, product, version, "they called")
    assert product in text_of(site.browser("ana").get("/calls"))


def fields_of(page: str) -> dict[str, str]:
    """The hidden fields of the first form for feedback."""
    form = page.partition('action="/feedback"')[2].partition("</form>")[0]
    return {
        name: html.unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    }
