"""Who did what: all of it is written down, can be found again, exported and pruned."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from sites import Site, both_databases, drop_audit_guards, label, rows_of
from sqlalchemy import update

from ocular.web import audit
from ocular.web.tables import AuditEntry, now


def entries(site: Site, **filters: str) -> list[list[str]]:
    """Name, action and subject of what the page shows, the latest first."""
    return [row[1:4] for row in rows_of(site.browser("root").get("/admin/audit", params=filters).text)[1:]]


@both_databases
def test_the_log_is_filtered_by_name_action_and_days(site: Site) -> None:
    site.browser("ana").submit("/sign-out")
    site.browser("sue")
    drop_audit_guards(site.database)
    site.change(update(AuditEntry).where(AuditEntry.name == "sue").values(at=now() - timedelta(days=3)))
    assert entries(site, name=" ANA ") == [["ana", "Signed out", ""], ["ana", "Signed in", ""]]
    assert entries(site, action="OUT") == [["ana", "Signed out", ""]]
    assert entries(site, action="%") == []
    day = (now() - timedelta(days=3)).date().isoformat()
    assert entries(site, since=day, until=day) == [["sue", "Signed in", ""]]
    assert ["sue", "Signed in", ""] not in entries(site, since=(now() - timedelta(days=2)).date().isoformat())
    assert ["ana", "Signed in", ""] not in entries(site, until=day)
    assert ["ana", "Signed in", ""] in entries(site, since="", until="")


def test_a_log_without_a_fitting_entry_says_so_and_a_day_must_be_one(site: Site) -> None:
    root = site.browser("root")
    assert "No matching entries." in root.get("/admin/audit", params={"name": "nobody"}).text
    assert "No matching entries." not in root.get("/admin/audit").text
    answer = root.get("/admin/audit", params={"since": "yesterday"})
    assert answer.status_code == 400
    assert "Use a date such as 2025-01-31, not &#39;yesterday&#39;" in answer.text


@both_databases
def test_the_log_is_exported_as_filtered(site: Site) -> None:
    with site.database.writing() as transaction:
        audit.audit(transaction, "=cmd", "sign-in refused", address="unknown")
    answer = site.browser("root").get("/admin/audit.csv", params={"action": "refused"})
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    assert answer.content.startswith("\ufeff".encode())
    (row,) = csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline=""))
    assert (row["name"], row["action"], row["address"]) == ("'=cmd", "sign-in refused", "unknown")


@pytest.mark.parametrize(
    ("path", "action", "subject"),
    [
        ("/team/feedback.csv", "feedback exported", ""),
        ("/team/assignments.csv", "assignments exported", ""),
        ("/admin/audit.csv", "audit exported", ""),
        ("/api/v1/feedback?after=7", "feedback read", "after 7"),
    ],
)
def test_exports_are_written_down(site: Site, path: str, action: str, subject: str) -> None:
    person = site.program("root") if "api" in path else site.browser("root")
    assert person.get(path).status_code == 200
    assert [(entry.name, entry.subject) for entry in site.audited(action)] == [("root", subject)]


def test_tokens_are_written_down_by_what_they_are_for(site: Site) -> None:
    root = site.browser("root")
    root.submit("/admin/tokens", name="ANA", label="our CRM", days="30")
    root.submit("/admin/tokens/revoke", number="1")
    root.submit("/admin/tokens/revoke", number="1")
    assert [entry.subject for entry in site.audited("token created")] == ["ana: our CRM (30 days; read)"]
    assert [entry.subject for entry in site.audited("token revoked")] == ["ana: our CRM", "number 1"]


def test_bulk_reads_of_programs_name_the_token_and_on_whose_behalf(site: Site) -> None:
    program = site.program("ana")
    program.get("/api/v1/clients?page=2")
    program.get("/api/v1/patterns")
    for action, subject in (("clients read", "page 2"), ("patterns read", "")):
        assert [(e.name, e.subject, e.token) for e in site.audited(action)] == [("ana", subject, "1: test")]
    assert ["ana, token 1: test", "Patterns read", ""] in entries(site)


def test_refusals_are_written_down(site: Site) -> None:
    theirs = site.clients("sue")[0]
    browser, program = site.browser("ana"), site.program("ana")
    assert browser.get("/admin/audit").status_code == 403
    assert browser.get("/client", params={"name": theirs}).status_code == 404
    assert program.get("/api/v1/feedback").status_code == 403
    assert browser.get("/no/such/page").status_code == 404  # nothing that anybody may have
    assert [(entry.name, entry.subject, entry.token) for entry in site.audited("refused")] == [
        ("ana", "403: GET /admin/audit", ""),
        ("ana", f"404: GET /client?name={theirs}", ""),
        ("ana", "403: GET /api/v1/feedback", "1: test"),
    ]


@both_databases
def test_each_client_that_changes_hands_is_written_down(site: Site) -> None:
    mine, free, theirs = site.clients("ana")[0], label(site.interactions, 40), site.clients("ben")[0]
    content = f'client,seller\n"{mine}",ben\n"{free}",ana\n"{theirs}",\n'
    assert site.browser("max").assign(content).status_code == 303
    assert [(entry.name, entry.subject) for entry in site.audited("client reassigned")] == [
        ("max", f"{mine}: ana → ben"), ("max", f"{free}: nobody → ana"), ("max", f"{theirs}: ben → nobody"),
    ]  # fmt: skip


def test_a_long_export_is_complete(site: Site) -> None:
    with site.database.writing() as transaction:
        for n in range(1100):
            audit.audit(transaction, "ana", "many", label(site.interactions, n % 60))
    answer = site.browser("root").get("/admin/audit.csv", params={"action": "many"})
    assert len(list(csv.reader(io.StringIO(answer.text, newline="")))) == 1101
