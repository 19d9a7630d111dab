"""
Every page of the application, asked for by one user at a time: time to first byte, size, and the processor time that
the server spent on it. Each role has its own pages; a seller has 400 clients, a manager ten sellers and the clients
that nobody has, an administrator all clients. A campaign may take 300 ms, everything else 60.

python benchmarks/pages.py [--quick]                      20,000 × 800, then 80,000 × 3,000; --quick: a small market
python benchmarks/pages.py --size 20000x800 --models DIR  one size; the models are kept in DIR for the next time
python benchmarks/pages.py --pages Today,news             these pages alone
"""

from __future__ import annotations

import http.client
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from common import parser, save
from serving import Browser, add_people, memory, processor_seconds, start
from sqlalchemy import insert, select

from ocular import OCuLaR
from ocular import load as load_model
from ocular.data.interactions import Interactions
from ocular.feedback import REASONS, REFUSED, Status
from ocular.synthetic.market import b2b
from ocular.web.database import Database
from ocular.web.shown import pair_digest
from ocular.web.tables import Assignment, Feedback, Role, Shown, User, now

LIMIT, CAMPAIGN_LIMIT, MAX_MEMORY = 60.0, 300.0, 1.5  # milliseconds, p95; GiB
CAMPAIGNS = {"campaign CSV"}
PER_SELLER, SELLERS_PER_TEAM, ASSIGNED = 400, 10, 0.9  # clients; sellers; share of clients that somebody has
STATUSES = (Status.PURSUING, Status.SNOOZED, Status.NOT_A_FIT, Status.WON, Status.LOST)
STATUS_SHARES = (0.3, 0.1, 0.3, 0.15, 0.15)
DAYS = 180  # of statuses
SETTINGS = {"init": "overlap", "tol": 1e-3, "max_iter": 15, "random_state": 0}


class Scale(NamedTuple):
    clients: int
    products: int
    patterns: int
    regularization: float
    statuses: int
    repeats: int


SCALES = {
    "20000x800": Scale(20_000, 800, 60, 100.0, 5_000, 30),
    "80000x3000": Scale(80_000, 3_000, 200, 300.0, 20_000, 30),
}
QUICK = Scale(2_000, 300, 20, 30.0, 500, 3)


def fit(scale: Scale, models: Path) -> None:
    """Fit two models, so that What's new has content: patterns alone, then with links and peers."""
    interactions = b2b(scale.clients, scale.products).interactions
    for name, more in (("first", {}), ("second", {"links": 1.0, "peers": 0.5})):
        if not (models / name).exists():
            model = OCuLaR(scale.patterns, scale.regularization, **SETTINGS, **more).fit(interactions)
            model.calibrate()
            model.save(models / name)
            time.sleep(1.1)  # the newer one is served, and their times are whole seconds


def fill(url: str, model: OCuLaR, scale: Scale) -> dict[Role, tuple[Browser, str]]:
    """Make people, assignments, statuses and what was shown; return a browser of each role and the person's name."""
    interactions, rng, database = model.interactions_, np.random.default_rng(0), Database(url)
    labels = interactions.user_labels[rng.permutation(interactions.n_users)].tolist()
    n_sellers = max(SELLERS_PER_TEAM, round(ASSIGNED * scale.clients / PER_SELLER))
    roles = {f"seller {n}": (Role.SELLER, f"team {n // SELLERS_PER_TEAM}") for n in range(n_sellers)}
    roles |= {"manager": (Role.MANAGER, "team 0"), "admin": (Role.ADMIN, "")}
    database.upgrade()
    with database.writing() as transaction:
        people = add_people(transaction, roles)
        sellers = [user.id for user, _ in people.values() if user.role == Role.SELLER]
        owners = {client: sellers[n % n_sellers] for n, client in enumerate(labels[: round(ASSIGNED * len(labels))])}
        transaction.execute(insert(Assignment), [{"client": c, "user_id": u} for c, u in owners.items()])
        rows = list(_statuses(model, owners, scale, rng))
        transaction.execute(insert(Feedback), rows)
        shown = {(row["client"], row["product"]): row for row in rows}
        transaction.execute(insert(Shown), [
            {"pair": pair_digest(*pair), "at": row["at"] - timedelta(days=1)}
            | {name: row[name] for name in ("client", "product", "user_id", "model")}
            for pair, row in shown.items()
        ])  # fmt: skip
    database.close()
    return {role: (people[name][1], name) for role, name in zip(Role, ("seller 0", "manager", "admin"), strict=True)}


def _statuses(model: OCuLaR, owners: dict[str, int], scale: Scale, rng: np.random.Generator) -> Any:
    """Yield feedback on the best recommendations of clients that somebody has, the oldest first."""
    interactions, at, clients = model.interactions_, now(), list(owners)
    chosen = rng.choice(len(clients), scale.statuses)
    users = np.array([interactions.user_rows[clients[n]] for n in chosen])
    ids, scores = model.recommend(users, N=5)
    for n, age in enumerate(np.sort(rng.uniform(0, DAYS, len(users)))[::-1].tolist()):
        place, status = rng.integers(5), rng.choice(STATUSES, p=STATUS_SHARES)
        client = clients[chosen[n]]
        days = int(rng.integers(-3, 30)) if status in (Status.PURSUING, Status.SNOOZED) else None
        yield {
            "at": at - timedelta(days=age), "client": client, "user_id": owners[client], "status": str(status),
            "product": str(interactions.item_labels[ids[n, place]]), "model": "second",
            "confidence": float(scores[n, place]), "pattern": None, "label": "", "note": "",
            "reason": str(rng.choice(REASONS)) if status in REFUSED else "",
            "due": None if days is None else (at + timedelta(days=days)).date(),
            "amount": float(rng.uniform(1e3, 5e4)) if status is Status.WON else None,
        }  # fmt: skip


def addresses(interactions: Interactions, model: OCuLaR, client: str, role: Role) -> dict[str, str]:
    """Return the pages that a role may ask for."""
    ranked = np.argsort(-interactions.by_item.degrees, kind="stable")
    products = {
        "bestseller": ranked[0], "middling product": ranked[len(ranked) // 2], "rare product": ranked[-1],
    }  # fmt: skip
    labels = {name: str(interactions.item_labels[item]) for name, item in products.items()}
    user = interactions.user_rows[client]
    pair = {"client": client, "product": str(interactions.item_labels[model.recommend([user], N=1)[0][0, 0]])}
    value = str(interactions.user_attributes["industry"][user])
    pages = {
        "Today": "/", "accounts": "/accounts", "accounts, searched": "/accounts?search=an&min_chance=5",
        "accounts, filtered": f"/accounts?{urlencode({'having': f'industry:{value}', 'order': 'name'})}",
        "calls": "/calls", "calls won": "/calls?stage=won", "catalog": "/catalog",
        "catalog, searched": "/catalog?search=sever&order=name", "whitespace": "/whitespace",
        "whitespace by name": "/whitespace?order=name",
        "search with a typo": f"/search?{urlencode({'q': client[:3] + client[4:9]})}",
        "suggestions": "/search.json?q=sto",
        "patterns": "/patterns", "my patterns": "/patterns?mine=true", "tour": "/patterns/tour",
        "tour of an industry": f"/patterns/tour?{urlencode({'about': f'industry={value}'})}",
        "pattern": f"/pattern?number={max(model.coclusters(), key=lambda each: len(each.users)).index}",
        "client": f"/client?{urlencode({'name': client})}", "brief": f"/client/brief?{urlencode({'name': client})}",
        "recommendation": f"/recommendation?{urlencode(pair)}", "performance": "/performance",
        "performance, year": "/performance?period=year", "results": "/performance/rows?period=year", "news": "/news",
        "model": "/model", "account": "/account", "prospect": "/prospect", "new product": "/new-product",
    }  # fmt: skip
    pages |= {name: f"/product?{urlencode({'name': label})}" for name, label in labels.items()}
    pages["campaign CSV"] = f"/product/clients.csv?{urlencode({'name': labels['bestseller']})}"
    if role is not Role.SELLER:
        pages |= {"team": "/team", "accounts of a seller": "/accounts?seller=seller+0"}
    if role is Role.ADMIN:
        pages |= {"admin": "/admin", "audit": "/admin/audit"}
    return pages


def first_byte(server: http.client.HTTPConnection, browser: Browser, address: str) -> tuple[float, int, int]:
    """Return the milliseconds until the answer begins, its size in bytes as sent, and its status."""
    begun = time.perf_counter()
    headers = {"Cookie": f"ocular_session={browser.cookie}", "Accept-Encoding": "gzip"}
    server.request("GET", address, headers=headers)
    answer = server.getresponse()
    took = (time.perf_counter() - begun) * 1e3
    return took, len(answer.read()), answer.status


def measure(url: str, pid: int, browser: Browser, address: str, repeats: int) -> dict[str, Any]:
    server = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
    first, size, status = first_byte(server, browser, address)
    first_byte(server, browser, address)
    used = processor_seconds(pid)
    took = [first_byte(server, browser, address)[0] for _ in range(repeats)]
    cpu = (processor_seconds(pid) - used) / repeats * 1e3
    server.close()
    p50, p95 = np.percentile(took, [50, 95]).tolist()
    return {"p50": p50, "p95": p95, "first": first, "cpu": cpu, "KB": size / 1000, "status": status}


def run(scale: Scale, folder: Path, models: Path, profile: Path | None, wanted: set[str]) -> dict[str, Any]:
    fit(scale, models)
    model, database = load_model(models / "second"), f"sqlite:///{folder}/pages.db"
    people = fill(database, model, scale)
    interactions = model.interactions_
    owner = people[Role.SELLER][1]
    client = _first_client(database, owner)
    pages = {role: addresses(interactions, model, client, role) for role in Role}
    del model
    process, url, ready = start(models, database, folder / "log", profile)
    print(f"{scale.clients:,} clients × {scale.products:,} products, K={scale.patterns}, {scale.statuses:,} statuses; "
          f"ready after {ready:.1f} s\n{'':32}{'p50':>8}{'p95':>8}{'first':>8}{'cpu':>8}{'KB':>8}")  # fmt: skip
    results: dict[str, Any] = {"scale": scale._asdict(), "ready after": ready}
    try:
        wait_until_idle(process.pid)
        print(f"memory at most {memory(process.pid):.2f} GiB before the first page")
        for role, of_role in pages.items():
            results[role] = {}
            for name, address in of_role.items():
                if wanted and name not in wanted:
                    continue
                found = measure(url, process.pid, people[role][0], address, scale.repeats)
                results[role][name] = found
                limit = CAMPAIGN_LIMIT if name in CAMPAIGNS else LIMIT
                remark = f"  above {limit:.0f} ms" if found["p95"] > limit else ""
                remark += f"  status {found['status']}" if found["status"] != 200 else ""
                numbers = (found[number] for number in ("p50", "p95", "first", "cpu", "KB"))
                print(f"{role:8} {name:23}{''.join(f'{number:8.1f}' for number in numbers)}{remark}", flush=True)
        results["memory"] = memory(process.pid)
        print(f"memory at most {results['memory']:.2f} GiB (asked for: ≤ {MAX_MEMORY})")
    finally:
        process.terminate()
        process.wait(60)
    return results


def wait_until_idle(pid: int, most: float = 600.0) -> None:
    """Wait until the server has compared the two models, which it does while it serves already."""
    until, idle = time.monotonic() + most, 0
    while idle < 3 and time.monotonic() < until:
        used = processor_seconds(pid)
        time.sleep(1)
        idle = idle + 1 if processor_seconds(pid) - used < 0.05 else 0


def _first_client(url: str, seller: str) -> str:
    database = Database(url)
    with database.reading() as transaction:
        query = select(Assignment.client).join(User, User.id == Assignment.user_id).where(User.name == seller)
        client = transaction.scalars(query.order_by(Assignment.client)).first()
    database.close()
    return str(client)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true", help="a small market, three requests for each page")
    arguments.add_argument("--size", choices=list(SCALES), help="only this one; results are only printed")
    arguments.add_argument("--models", type=Path, help="keep the models here, and take them from here the next time")
    arguments.add_argument("--repeats", type=int, help="instead of 30")
    arguments.add_argument("--pages", default="", help="names of pages, with commas between; results are only printed")
    arguments.add_argument("--profile", type=Path, help="where to write a profile of the routes (makes them slower)")
    options = arguments.parse_args()
    chosen = {"quick": QUICK} if options.quick else {options.size: SCALES[options.size]} if options.size else SCALES
    results, wanted = {}, {name for name in options.pages.split(",") if name}
    for name, scale in chosen.items():
        with tempfile.TemporaryDirectory() as temporary:
            models = (options.models or Path(temporary)) / name
            scale_of_run = scale._replace(repeats=options.repeats or scale.repeats)
            results[name] = run(scale_of_run, Path(temporary), models, options.profile, wanted)
    if chosen is SCALES and options.profile is None and not wanted:
        save("pages", results)


if __name__ == "__main__":
    main()
