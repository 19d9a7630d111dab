"""
The application under load: 50 people on a model of 80,000 clients × 3,000 products with K=200, 200 sellers with 400
clients each. First they look at every page for a second on average, for which the targets are meant, then they do not
stop at all, which tells how many requests a second can be served. The first seconds of each are not counted.

The people are simulated on the same machine and take their share of its cores from the application: what is measured
on two cores is less than what it can do alone.

python benchmarks/web.py [--quick]                  --quick: a small model, 10 s
python benchmarks/web.py --db postgresql://…        an empty database; results are only printed
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx2
import numpy as np
from common import parser, save
from serving import add_people, memory, processor_seconds, start
from sqlalchemy import insert

from ocular import OCuLaR
from ocular.feedback import Status
from ocular.synthetic.market import b2b
from ocular.web.database import Database
from ocular.web.tables import Assignment, Role

PEOPLE, LOOKING = 50, 1.0  # at once; seconds between two pages, on average
WARMING = 5.0  # seconds that are not counted
MIX = {
    "today": 0.15, "accounts": 0.15, "client": 0.2, "recommendation": 0.2, "product": 0.1, "whitespace": 0.05,
    "search": 0.05, "performance": 0.05, "feedback": 0.05,
}  # fmt: skip
ADDRESSES = {"today": "/", "accounts": "/accounts", "whitespace": "/whitespace", "performance": "/performance"}
TARGETS = {"client": 150.0, "recommendation": 150.0}  # milliseconds, p95
MAX_MEMORY = 1.5  # GiB
LINK = re.compile(r'href="(/recommendation\?[^"]+)"')


class Scale(NamedTuple):
    clients: int
    products: int
    patterns: int
    regularization: float
    sellers: int
    seconds: float


FULL = Scale(80_000, 3_000, 200, 300.0, 200, 60.0)
QUICK = Scale(2_000, 300, 20, 30.0, 50, 10.0)


class Seller(NamedTuple):
    cookie: str
    csrf: str
    clients: list[str]


def fill(url: str, clients: list[str], n_sellers: int) -> list[Seller]:
    """Make sellers who are signed in already, with all the clients among them."""
    database, sellers = Database(url), list[Seller]()
    database.upgrade()
    with database.writing() as transaction:
        roles = {f"seller {n}": (Role.SELLER, f"team {n % 10}") for n in range(n_sellers)}
        for n, (user, browser) in enumerate(add_people(transaction, roles).values()):
            sellers.append(Seller(*browser, clients[n::n_sellers]))
            transaction.execute(
                insert(Assignment), [{"client": client, "user_id": user.id} for client in sellers[-1].clients]
            )
    database.close()
    return sellers


# --------------------------------------------------------------------------------------------------------- the people


@dataclass
class Measured:
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in MIX})
    errors: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)


async def work(url: str, person: Seller, seed: int, seconds: float, looking: float, measured: Measured) -> None:
    """One person: some page, a look at it, the next one."""
    rng, links = random.Random(seed), []
    since = time.perf_counter() + WARMING
    until = since + seconds
    async with httpx2.AsyncClient(base_url=url, cookies={"ocular_session": person.cookie}, timeout=60) as browser:
        await asyncio.sleep(rng.random() * max(looking, 0.2))  # not all at once
        while time.perf_counter() < until:
            kind = rng.choices(list(MIX), list(MIX.values()))[0] if links else "client"
            request = ask(browser, kind, person, links, rng)
            begun = time.perf_counter()
            try:
                answer = await browser.send(request)
            except httpx2.HTTPError as error:
                measured.errors[type(error).__name__] += 1
                continue
            if begun >= since:
                measured.milliseconds[kind].append((time.perf_counter() - begun) * 1e3)
                measured.bytes[kind] += len(answer.content)
            if answer.status_code != (303 if kind == "feedback" else 200):
                measured.errors[f"{kind}: {answer.status_code}"] += 1
            elif kind == "client":
                links = [unescape(link) for link in LINK.findall(answer.text)]
            if looking:
                await asyncio.sleep(rng.expovariate(1 / looking))


def ask(browser: httpx2.AsyncClient, kind: str, person: Seller, links: list[str], rng: random.Random) -> httpx2.Request:
    if kind in ADDRESSES:
        return browser.build_request("GET", ADDRESSES[kind])
    if kind == "client":
        return browser.build_request("GET", f"/client?{urlencode({'name': rng.choice(person.clients)})}")
    if kind == "search":
        return browser.build_request("GET", f"/search?{urlencode({'q': rng.choice(person.clients)[1:8]})}")
    link = rng.choice(links)
    pair = dict(httpx2.URL(link).params)
    if kind == "product":
        return browser.build_request("GET", f"/product?{urlencode({'name': pair['product']})}")
    if kind == "recommendation":
        return browser.build_request("GET", link)
    status = rng.choice([Status.PURSUING, Status.NOT_A_FIT])
    return browser.build_request("POST", "/feedback", data=pair | {"csrf": person.csrf, "status": str(status)})


async def load(url: str, people: list[Seller], seconds: float, looking: float) -> Measured:
    measured = Measured()
    chosen = people[:PEOPLE]
    await asyncio.gather(*(work(url, p, n, seconds, looking, measured) for n, p in enumerate(chosen)))
    return measured


def tell(measured: Measured, seconds: float) -> dict[str, Any]:
    """Print and return."""
    counts = {kind: len(found) for kind, found in measured.milliseconds.items()}
    results: dict[str, Any] = {"per second": sum(counts.values()) / seconds, "errors": dict(measured.errors)}
    print(f"  {sum(counts.values()):,} requests, {results['per second']:.1f} a second; errors: "
          f"{dict(measured.errors) or 'none'} (asked for: none)")  # fmt: skip
    for kind, found in measured.milliseconds.items():
        if not found:
            continue
        p50, p95, p99 = np.percentile(found, [50, 95, 99]).tolist()
        size = measured.bytes[kind] / counts[kind] / 1000
        wanted = f" (asked for: p95 ≤ {TARGETS[kind]:.0f})" if kind in TARGETS else ""
        print(f"  {kind:15}{counts[kind]:6,} × p50 {p50:6.0f}  p95 {p95:6.0f}  p99 {p99:6.0f} ms, "
              f"{size:4.0f} KB{wanted}", flush=True)  # fmt: skip
        results[kind] = {"requests": counts[kind], "p50": p50, "p95": p95, "p99": p99, "KB": size}
    return results


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true", help="a small model and 10 s")
    arguments.add_argument("--db", help="an empty database instead of an SQLite file: postgresql://…")
    arguments.add_argument("--seconds", type=float, help="instead of 60")
    arguments.add_argument("--models", type=Path, help="keep the model here, and take it from here the next time")
    arguments.add_argument("--profile", type=Path, help="where to write a profile of the routes (makes them slower)")
    options = arguments.parse_args()
    scale = QUICK if options.quick else FULL
    if options.seconds:
        scale = scale._replace(seconds=options.seconds)
    with tempfile.TemporaryDirectory() as temporary:
        models, database = options.models or Path(temporary) / "models", options.db or f"sqlite:///{temporary}/web.db"
        if not (models / "first").exists():
            interactions = b2b(scale.clients, scale.products).interactions
            settings = {"init": "overlap", "tol": 1e-3, "random_state": 0}
            OCuLaR(scale.patterns, scale.regularization, **settings).fit(interactions).save(models / "first")
        from ocular import load as load_model

        people = fill(database, load_model(models / "first").interactions_.user_labels.tolist(), scale.sellers)
        process, url, ready = start(models, database, Path(temporary) / "log", options.profile)
        kind = database.partition(":")[0]
        print(f"{scale.clients:,} clients × {scale.products:,} products, K={scale.patterns}, {len(people)} sellers "
              f"with {len(people[0].clients)} clients each, {kind}; ready after {ready:.1f} s")  # fmt: skip
        results: dict[str, Any] = {"scale": scale._asdict(), "database": kind, "ready after": ready}
        try:
            results["memory at start"] = memory(process.pid)
            for name, looking in (("looking", LOOKING), ("without a pause", 0.0)):
                print(f"{PEOPLE} people, {f'{looking:g} s a page' if looking else name}")
                used, begun = processor_seconds(process.pid), time.perf_counter()
                results[name] = tell(asyncio.run(load(url, people, scale.seconds, looking)), scale.seconds)
                share = (processor_seconds(process.pid) - used) / (time.perf_counter() - begun)
                results[name]["cores of the server"] = share
                print(f"  the server took {share:.2f} cores")
            results["memory"] = memory(process.pid)
            print(f"memory at most {results['memory']:.2f} GiB (asked for: ≤ {MAX_MEMORY}), "
                  f"at the start {results['memory at start']:.2f}")  # fmt: skip
        finally:
            process.terminate()
            process.wait(60)
    if not options.quick and options.profile is None and options.db is None:
        save("web", results)


if __name__ == "__main__":
    main()
