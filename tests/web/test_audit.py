"""Who did what: all of it is written down, can be found again, exported and pruned."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from sites import Site, both_databases, label, rows_of
from sqlalchemy import update

from ocular.web import audit
from ocular.web.tables import AuditEntry, Failure, now


def entries(site: Site, **filters: str) -> list[list[str]]:
    """Name, action and subject of what the page shows, the latest first."""
    return [row[1:4] for row in rows_of(site.browser("root").get("/admin/audit", params=filters).text)[1:]]


@both_databases
def test_the_log_is_filtered_by_name_action_and_days(site: Site) -> None:
    site.browser("ana").submit("/sign-out")
    site.browser("sue")
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
    assert [entry.subject for entry in site.audited("token created")] == ["ana: our CRM (30 days)"]
    assert [entry.subject for entry in site.audited("token revoked")] == ["ana: our CRM", "number 1"]


@both_databases
def test_pruning_leaves_the_day_and_what_follows(site: Site) -> None:
    site.stranger().sign_in("ana", "a wrong password")
    site.browser("ana")
    today = now().date()
    yesterday = now() - timedelta(days=1)
    site.change(
        update(AuditEntry).where(AuditEntry.action == "sign-in refused").values(at=yesterday),
        update(Failure).values(at=yesterday),
    )
    with site.database.writing() as transaction:
        transaction.add(Failure(name="ana", address="unknown"))
        assert audit.prune(transaction, today) == 1
    assert site.audited("sign-in refused") == []
    assert len(site.audited("signed in")) == 1
    assert site.count(Failure) == 1


def test_a_long_export_is_complete(site: Site) -> None:
    with site.database.writing() as transaction:
        for n in range(1100):
            audit.audit(transaction, "ana", "many", label(site.interactions, n % 60))
    answer = site.browser("root").get("/admin/audit.csv", params={"action": "many"})
    assert len(list(csv.reader(io.StringIO(answer.text, newline="")))) == 1101
