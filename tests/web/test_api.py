"""The interface for programs: what it answers, what it refuses, and that nothing makes it fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from sites import Browser, Site

from ocular.web.tables import AuditEntry, Feedback

API = "/api/v1"


def refused(answer: httpx2.Response, status: int) -> str:
    """The one line of a refusal."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    assert "\n" not in answer.json()["error"]
    return str(answer.json()["error"])


def test_recommendations_are_those_of_the_model_with_everything_to_tell(site: Site) -> None:
    client = site.clients("ana")[0]
    found = site.program("ana").get(f"{API}/recommendations", params={"client": client, "n": 3}).json()
    expected = site.services.served.advisor.recommend(client, 3)
    assert [(r["client"], r["product"]) for r in found] == [(client, r.product) for r in expected]
    for told, truth in zip(found, expected, strict=True):
        assert told["confidence"] == pytest.approx(truth.confidence)
        assert told["value"] == pytest.approx(site.worth(truth), abs=0.006)
        assert told["hit_rate"] == pytest.approx(None if truth.observed is None else truth.observed.rate)
        assert told["price"] == (None if truth.price is None else round(truth.price.median, 2))
        assert told["owned"] is False
        assert told["pattern"] == (told["reasons"][0]["pattern"] if told["reasons"] else None)
    assert any(told["reasons"] for told in found)
    assert [(e.name, e.subject) for e in site.audited("client read")] == [("ana", client)]


def test_an_explanation_adds_up_and_can_suppose(site: Site) -> None:
    client = site.clients("ana")[0]
    product, other = site.open_product(client), site.open_product(client, 1)
    program = site.program("ana")
    told = program.get(f"{API}/explanation", params={"client": client, "product": product}).json()
    assert sum(reason["share"] for reason in told["reasons"]) + told["hidden_share"] + told["rest_share"] == (
        pytest.approx(1.0)
    )
    for reason in told["reasons"]:
        assert reason["matrix"]["products"][-1] == product
        own, *rows = reason["matrix"]["rows"]
        assert own["self"]
        assert not own["bought"][-1]
        has_it = [row["bought"][-1] for row in rows]
        assert has_it == sorted(has_it, reverse=True)  # first some who bought it, then some of the others
        assert sum(has_it) <= reason["bought_by"]
        assert len(rows) - sum(has_it) <= reason["group"] - reason["bought_by"]
    supposed = program.get(f"{API}/explanation", params={"client": client, "product": product, "also": [other]}).json()
    truth = site.services.served.advisor.explain(client, product, also=[other])
    assert supposed["confidence"] == pytest.approx(truth.confidence)
    assert supposed["confidence"] != pytest.approx(told["confidence"])
    assert site.audited("recommendation read")[0].subject == f"{client} · {product}"


def test_patterns_are_those_of_the_model(site: Site) -> None:
    program, truth = site.program("ana"), site.services.served.patterns
    found = program.get(f"{API}/patterns").json()
    assert [(p["number"], p["label"], p["clients"]) for p in found] == [
        (number, pattern.label, len(pattern.users)) for number, pattern in truth.items()
    ]
    number = found[0]["number"]
    one = program.get(f"{API}/patterns/{number}").json()
    assert one["label"] == found[0]["label"]
    assert len(one["typical_products"]) == min(100, len(truth[number].items))


def test_feedback_is_kept_and_numbered(site: Site) -> None:
    client, program = site.clients("ana")[0], site.program("ana")
    given = {"client": client, "product": site.open_product(client), "status": "not a fit", "reason": "why"}
    answers = [program.post(f"{API}/feedback", json=given) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] < answers[1].json()["id"]
    assert site.count(Feedback) == 2


@pytest.mark.parametrize(
    ("path", "params", "status", "told"),
    [
        ("/recommendations", {}, 422, "client: Field required"),
        ("/recommendations", {"client": "CLIENT", "n": "0"}, 422, "n: "),
        ("/recommendations", {"client": "CLIENT", "n": "101"}, 422, "n: "),
        ("/recommendations", {"client": "CLIENT", "n": "many"}, 422, "n: "),
        ("/recommendations", {"client": "x" * 501}, 422, "client: "),
        ("/recommendations", {"client": "nobody"}, 404, "Client not found"),
        ("/explanation", {"client": "CLIENT"}, 422, "product: Field required"),
        ("/explanation", {"client": "CLIENT", "product": "no such"}, 404, "Product not found"),
        (
            "/explanation",
            {"client": "CLIENT", "product": "PRODUCT", "also": "no such"},
            404,
            "Product not found",
        ),
        ("/explanation", {"client": "CLIENT", "product": "PRODUCT", "also": ["PRODUCT"] * 11}, 422, "also: "),
        ("/patterns/999", {}, 404, "Pattern not found"),
        ("/patterns/-1", {}, 404, "Pattern not found"),
        ("/patterns/first", {}, 422, "number: "),
        ("/patterns/" + "9" * 30, {}, 404, "Pattern not found"),
        ("/nowhere", {}, 404, "Nothing found at this address"),
    ],
)
def test_a_refusal_is_one_line_of_json(site: Site, path: str, params: dict[str, Any], status: int, told: str) -> None:
    client = site.clients("ana")[0]
    names = {"CLIENT": client, "PRODUCT": site.open_product(client)}
    asked = {
        key: [names.get(v, v) for v in value] if isinstance(value, list) else names.get(value, value)
        for key, value in params.items()
    }
    assert refused(site.program("ana").get(f"{API}{path}", params=asked), status).startswith(told)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"client": 1}', b'{"client": "a", "product": "b", "status": "c"}', b"\xff\xfe",
     b'{"client": "\\ud800", "product": "\\u0000", "status": "won"}', b"[" * 100_000],
)  # fmt: skip
def test_a_body_that_is_no_judgement_is_refused(site: Site, body: bytes) -> None:
    program = site.program("ana")
    answer = program.post(f"{API}/feedback", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in {400, 404, 422}
    refused(answer, answer.status_code)
    assert site.count(Feedback) == 0


def test_another_method_is_refused_with_those_that_are_allowed(site: Site) -> None:
    answer = site.program("ana").delete(f"{API}/feedback")
    refused(answer, 405)


def test_a_seller_reads_no_export(site: Site) -> None:
    assert refused(site.program("ana").get(f"{API}/feedback"), 403) == "You don't have access"


def test_the_document_of_the_interface_tells_of_no_page(site: Site) -> None:
    document = site.program("ana").get(f"{API}/openapi.json").json()
    assert set(document["paths"]) == {
        f"{API}/{name}"
        for name in (
            "clients",
            "recommendations",
            "due",
            "explanation",
            "patterns",
            "patterns/{number}",
            "feedback",
            "prospects",
            "new-products",
            "products/{product}/clients",
        )
    }
    assert document["components"]["securitySchemes"]["HTTPBearer"] == {"type": "http", "scheme": "bearer"}


def test_the_document_tells_the_fields_of_every_answer(site: Site) -> None:
    document = site.program("ana").get(f"{API}/openapi.json").json()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert set(operation["responses"]) >= {"400", "401", "403", "404", "405", "409", "413", "422", "503"}
            assert all(given.get("description") for given in operation.get("parameters", [])), path
            good = operation["responses"]["201" if "201" in operation["responses"] else "200"]["content"][
                "application/json"
            ]["schema"]
            named = good.get("items", good)["$ref"].rpartition("/")[2]
            assert document["components"]["schemas"][named]["properties"], path


def test_a_program_lists_its_clients(site: Site) -> None:
    program = site.program("ana")
    found = program.get(f"{API}/clients").json()
    assert (found["total"], found["page"], found["pages"]) == (15, 1, 1)
    assert {line["client"] for line in found["clients"]} == set(site.clients("ana"))
    values = [line["value"] for line in found["clients"]]
    assert values == sorted(values, reverse=True)
    assert values == [round(value, 2) for value in values]
    assert found["currency"] == site.interactions.purchases.currency
    small = [program.get(f"{API}/clients", params={"size": 10, "page": page}).json() for page in (1, 2, 3)]
    assert [len(page["clients"]) for page in small] == [10, 5, 5]
    assert small[0]["clients"] + small[1]["clients"] == found["clients"]
    one = program.get(f"{API}/clients", params={"search": site.clients("ana")[0].upper(), "order": "name"}).json()
    assert [line["client"] for line in one["clients"]] == [site.clients("ana")[0]]
    assert site.program("root").get(f"{API}/clients").json()["total"] == 60
    line = found["clients"][0]
    site.browser("ana").submit("/feedback", client=line["client"], product=line["product"], status="won")
    again = {each["client"]: each for each in program.get(f"{API}/clients").json()["clients"]}[line["client"]]
    assert again["product"] != line["product"]
    assert again["open"] == line["open"] - 1


def test_amounts_are_in_cents_of_a_currency(site: Site) -> None:
    found = site.program("ana").get(f"{API}/recommendations", params={"client": site.clients("ana")[0], "n": 20}).json()
    amounts = [told[name] for told in found for name in ("price", "price_low", "price_high", "value") if told[name]]
    assert amounts
    assert amounts == [round(amount, 2) for amount in amounts]
    assert {told["currency"] for told in found} == {site.interactions.purchases.currency}


def test_feedback_is_read_in_parts(site: Site) -> None:
    for client in site.clients("ana")[:5]:
        site.browser("ana").submit("/feedback", client=client, product=site.open_product(client), status="won")
    program, read, after = site.program("max"), [], 0
    while part := program.get(f"{API}/feedback", params={"after": after, "limit": 2}).json():
        assert len(part) <= 2
        read += [row["client"] for row in part]
        after = part[-1]["id"]
    assert read == site.clients("ana")[:5]
    assert program.get(f"{API}/feedback", params={"limit": 0}).status_code == 422


def test_no_request_that_the_document_allows_makes_the_server_fail(site: Site, tmp_path: Path) -> None:
    """Names are those of true clients half of the time, so that it gets past the first check."""
    program, client = site.program("root"), site.clients("ana")[0]
    product = site.open_product(client)
    schema = schemathesis.openapi.from_asgi(
        f"{API}/openapi.json", already_running(site.app), headers={"authorization": program.headers["authorization"]}
    )
    for operation in schema.get_all_operations():
        answered = hammer(program, operation.ok().as_strategy(), client, product)
        assert answered & {200, 201}, operation.ok().label
    assert site.count(Feedback) > 0
    assert site.count(AuditEntry) > 0


def already_running(app: Any) -> Any:
    """Without a second start and end."""

    async def called(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for _ in ("startup", "shutdown"):
            await send({"type": f"{(await receive())['type']}.complete"})

    return called


def hammer(program: Browser, cases: Any, client: str, product: str) -> set[int]:
    """The statuses of what a server without a fault answers."""
    seen: set[int] = set()
    true = {"client": client, "product": product, "purchases": [product], "buyers": [client], "attributes": {}}

    @settings(
        max_examples=20, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases)
    def ask(case: Any) -> None:
        for true_names in (False, True):
            if true_names:
                for place in (case.query, case.body, case.path_parameters):
                    if isinstance(place, dict):
                        place.update({name: value for name, value in true.items() if name in place})
            answer = case.call(headers={"authorization": program.headers["authorization"]})
            case.validate_response(answer, checks=[not_a_server_error])
            seen.add(answer.status_code)

    ask()
    return seen
