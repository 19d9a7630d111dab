"""How recommendations perform: for leaders of the team, for sellers their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from ocular.explain.price import money
from ocular.feedback import Status
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.errors import RefusedError
from ocular.web.performance import CSV_COLUMNS, Performance, Period
from ocular.web.tables import LABEL, Role, now
from ocular.web.templating import render

router = APIRouter()
PAGE_LENGTH = 50
MAX_SELLERS, MAX_PATTERNS = 50, 12
MAX_DAYS = 3 * 366
EARLIEST, LATEST = date(2000, 1, 1), date(2200, 1, 1)
DAYS = {"30": 30, "quarter": 91, "year": 364}  # whole weeks, where it is more than a month
NAMES = {"30": "30 days", "quarter": "Quarter", "year": "Year"}
STAGES = {
    "": "All results", "pursued": "Pursued", Status.WON: "Won", Status.LOST: "Lost", Status.NOT_A_FIT: "Not a fit",
    "refused": "Lost or not a fit", "open": "Open deals",
}  # fmt: skip


@dataclass(frozen=True)
class Filters:
    """What the fields of the page say; an empty one selects all."""

    period: str
    since: date | None
    until: date | None
    team: str
    seller: str

    def days(self) -> Period:
        """Return the chosen days: those of the preset, or the two dates where one is given."""
        today = now().date()
        if self.since is None and self.until is None:
            return Period(today - timedelta(days=DAYS[self.period] - 1), today)
        until = self.until or today
        since = self.since or (until - timedelta(days=DAYS[self.period] - 1) if until > EARLIEST else until)
        if not EARLIEST < since <= until < LATEST or (until - since).days >= MAX_DAYS:
            raise RefusedError("Choose a From date before the To date, at most three years apart")
        return Period(since, until)

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}


def filters(
    period: Literal["30", "quarter", "year"] = "quarter",
    since: Annotated[str, Query(max_length=20)] = "",
    until: Annotated[str, Query(max_length=20)] = "",
    team: Annotated[str, Query(max_length=LABEL)] = "",
    seller: Annotated[str, Query(max_length=LABEL)] = "",
) -> Filters:
    return Filters(period, _day(since), _day(until), team, seller)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text.strip()) if text.strip() else None
    except ValueError:
        raise RefusedError(f"Use a date such as 2025-01-31, not {text!r}") from None


Chosen = Annotated[Filters, Depends(filters)]


def _addresses(chosen: Filters) -> Callable[..., str]:
    """Return what makes links with the same filters but for some of them."""

    def address(path: str = "/performance", **changes: Any) -> str:
        fields = chosen.to_dict() | changes
        return f"{path}?{urlencode({name: value for name, value in fields.items() if value not in ('', None)})}"

    return address


@router.get("/performance")
def show_performance(
    request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, chosen: Chosen
) -> Response:
    period = chosen.days()
    with services.computing:
        results = Performance(services, served, visitor, period, chosen.team, chosen.seller)
        weekly, totals, sellers = results.weekly(), results.totals(), results.by_seller()
        patterns, currency = results.by_pattern(), served.interactions.currency
        has_money, address = results.has_money, _addresses(chosen)
        values = {
            "visitor": visitor, "currency": currency, "filters": chosen, "period": period, "address": address,
            "periods": NAMES, "ticks": [f"{week:%-d %b}" for week in period.weeks], "weekly": weekly,
            "totals": totals, "before": results.totals(period.before()), "open": results.open_pipeline(),
            "has_money": has_money, "money_texts": [money(round(amount), currency) for amount in weekly["money"]],
            "sellers": sellers[:MAX_SELLERS], "n_sellers": len(sellers), "patterns": patterns[:MAX_PATTERNS],
            "n_patterns": len(patterns), "leads": visitor.role is not Role.SELLER,
            "people": [user for user in results.people if user.role == Role.SELLER or user.name == chosen.seller],
            "teams": sorted({user.team for user in results.people if user.team}),
            "week_addresses": lambda stage: [
                address("/performance/rows", stage=stage, week=week) for week in range(period.n_weeks)
            ],
            "refusals": [
                (name, count, f"{count:,}", address("/performance/rows", stage="refused", reason=name))
                for name, count in results.refusals()
            ],
        }  # fmt: skip
        return render(request, "performance.html", values)


@router.get("/performance/rows")
def list_rows(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    chosen: Chosen,
    stage: Literal["", "pursued", "won", "lost", "not a fit", "refused", "open"] = "",
    pattern: Annotated[str, Query(max_length=LABEL)] = "",
    reason: Annotated[str, Query(max_length=LABEL)] = "",
    week: Annotated[int | None, Query(ge=0, le=200)] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """List the recommendations behind a number."""
    with services.computing:
        results = Performance(services, served, visitor, chosen.days(), chosen.team, chosen.seller)
        places = results.select(stage, pattern, reason, week)
        n_pages = max(1, -(-len(places) // PAGE_LENGTH))
        page = min(page, n_pages)
        rows = list(results.rows(places[(page - 1) * PAGE_LENGTH : page * PAGE_LENGTH]))
    address, own = _addresses(chosen), {"stage": stage, "pattern": pattern, "reason": reason, "week": week}
    weeks = results.period.weeks
    values = {
        "visitor": visitor, "currency": served.interactions.currency, "rows": rows, "total": len(places),
        "page": page, "n_pages": n_pages, "title": STAGES[stage], "back": address(), "period": results.period,
        "details": [text for text in (
            next((user.full_name for user in results.people if user.name == chosen.seller), ""), chosen.team,
            pattern, reason, f"Week of {weeks[week]:%-d %b %Y}" if week is not None and week < len(weeks) else "",
        ) if text],
        "link_to_page": lambda number: address("/performance/rows", **own, page=number),
        "csv": address("/performance.csv", **own), "leads": visitor.role is not Role.SELLER,
    }  # fmt: skip
    return render(request, "performance_rows.html", values)


@router.get("/performance.csv")
def export_rows(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    chosen: Chosen,
    stage: Literal["", "pursued", "won", "lost", "not a fit", "refused", "open"] = "",
    pattern: Annotated[str, Query(max_length=LABEL)] = "",
    reason: Annotated[str, Query(max_length=LABEL)] = "",
    week: Annotated[int | None, Query(ge=0, le=200)] = None,
) -> Response:
    services.view_log.write(visitor.user.name, "performance exported", "", visitor.address)
    with services.computing:
        results = Performance(services, served, visitor, chosen.days(), chosen.team, chosen.seller)
        places = results.select(stage, pattern, reason, week)
    return services.exports.download(visitor, "performance.csv", CSV_COLUMNS, _csv_rows(results, places))


def _csv_rows(results: Performance, places: list[int]) -> Iterator[dict[str, object]]:
    for row in results.rows(places):
        yield {
            "client": row.client_name if row.client is None else row.client, "product": row.product,
            "seller": row.seller, "team": row.team, "status": row.status, "since": row.at.date().isoformat(),
            "pursued": row.pursued.date().isoformat() if row.pursued else "",
            "amount": "" if row.amount is None else f"{row.amount:.2f}", "estimated": "yes" if row.estimated else "",
            "reason": row.reason, "pattern": row.pattern,
        }  # fmt: skip
