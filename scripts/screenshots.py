"""
Pictures of every page of the application, from the embedded sample: light and dark, wide and on a phone.

python scripts/screenshots.py [-o docs/screenshots]     needs Chromium and Pillow
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "web"))

from browser_support import COMMAND, PASSWORD, serving, start_chromium  # noqa: E402

from ocular import Advisor  # noqa: E402
from ocular.feedback import Status  # noqa: E402
from ocular.web.auth import Visitor  # noqa: E402
from ocular.web.database import Database  # noqa: E402
from ocular.web.feedback import NewFeedback, save_feedback  # noqa: E402
from ocular.web.feedback_seal import ShownRecommendation  # noqa: E402
from ocular.web.tables import Assignment, Role  # noqa: E402
from ocular.web.users import add_user  # noqa: E402

WIDTHS = {"wide": 1280, "phone": 390}
MAX_HEIGHT, COLOURS, MAX_BYTES = 2400, 160, 150_000
STATUSES = [Status.PURSUING, Status.WON, Status.PURSUING, Status.NOT_A_FIT, Status.WON, Status.LOST]
REASONS = {Status.PURSUING: "budget in spring", Status.NOT_A_FIT: "has it from another vendor", Status.WON: "",
           Status.LOST: "too dear"}  # fmt: skip


def fill(database: Database, advisor: Advisor, sellers: int = 3) -> list[str]:
    """Add people, assignments by the sample's own column and some feedback; return the first seller's clients."""
    interactions = advisor.model.interactions_
    names = sorted({str(name) for name in interactions.user_attributes["seller"].tolist()})
    database.upgrade()
    with database.writing() as transaction:
        add_user(transaction, "maria", Role.MANAGER, PASSWORD, full_name="Maria Rossi", team="north")
        add_user(transaction, "root", Role.ADMIN, PASSWORD, full_name="Ruth Okafor")
        people = {
            name: add_user(transaction, f"seller{n}", Role.SELLER, PASSWORD, full_name=name, team="north")
            for n, name in enumerate(names[:sellers])
        }
        labels = [str(label) for label in interactions.user_labels]
        owners = zip(labels, interactions.user_attributes["seller"].tolist(), strict=True)
        owned = [(client, people[seller]) for client, seller in owners if seller in people]
        for client, user in owned:
            transaction.add(Assignment(client=client, user_id=user.id))
    pattern_labels = {pattern.index: pattern.label for pattern in advisor.model.coclusters()}
    for n, (client, user) in enumerate(owned[: 2 * len(STATUSES)]):
        best, status = advisor.recommend(client, 1)[0], STATUSES[n % len(STATUSES)]
        pattern = best.explanation.reasons[0].cocluster if best.explanation.reasons else None
        label = "" if pattern is None else pattern_labels[pattern]
        shown = ShownRecommendation("model-sample", best.confidence, pattern, label)
        product = str(interactions.item_labels[best.explanation.item])
        given = NewFeedback(client, product, status, REASONS[status])
        save_feedback(database, Visitor(user, "", "127.0.0.1"), given, shown)
    return [client for client, user in owned if user.name == "seller0"]


def clear_recommendation(advisor: Advisor, clients: list[str]) -> dict[str, str]:
    """Return client and product of a recommendation with two reasons."""
    interactions = advisor.model.interactions_
    candidates = [best for client in clients for best in advisor.recommend(client, 3)]
    best = max(
        candidates,
        key=lambda one: (
            len(one.explanation.summary().shown_reasons) >= 2,
            one.confidence < 0.95,
            one.confidence,
        ),
    ).explanation
    return {"client": str(interactions.user_labels[best.user]), "product": str(interactions.item_labels[best.item])}


def preview_assignments(page: Page, clients: list[str]) -> None:
    page.goto("/team")
    lines = ["client,seller", *(f'"{client}",seller1' for client in clients[:5])]
    file = {"name": "assignments.csv", "mimeType": "text/csv", "buffer": "\n".join(lines).encode()}
    page.get_by_label("CSV file").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="Preview of the assignments").wait_for()


def take(page: Page, path: Path) -> None:
    """Save a picture with few colours, which are enough for a page of text."""
    height = min(page.evaluate("document.documentElement.scrollHeight"), MAX_HEIGHT)
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}  # type: ignore[index]
    image = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))  # type: ignore[arg-type]
    image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.name}: {size / 1000:.0f} KB")
    if size > MAX_BYTES:
        raise SystemExit(f"screenshots: expected at most {MAX_BYTES:,} bytes, got {size:,} in {path.name}")


def photograph(browser: Browser, url: str, advisor: Advisor, clients: list[str], output: Path) -> None:
    pair = clear_recommendation(advisor, clients)
    pages: dict[str, tuple[str, str | Callable[[Page], None]]] = {
        "sign-in": ("", "/sign-in"),
        "accounts": ("seller0", "/"),
        "client": ("seller0", f"/client?{urlencode({'name': pair['client']})}"),
        "recommendation": ("seller0", f"/recommendation?{urlencode(pair)}"),
        "calls": ("seller0", "/calls"),
        "account": ("seller0", "/account"),
        "patterns": ("seller0", "/patterns"),
        "pattern": ("seller0", f"/pattern?number={advisor.model.coclusters()[0].index}"),
        "tour": ("seller0", f"/patterns/tour?number={advisor.model.coclusters()[0].index}"),
        "model": ("maria", "/model"),
        "refusal": ("seller0", "/client?name=nobody"),
        "team": ("maria", "/team"),
        "assignments": ("maria", lambda page: preview_assignments(page, clients)),
        "admin": ("root", "/admin"),
        "audit": ("root", "/admin/audit"),
    }
    signed_in = {}
    for person in ("seller0", "maria", "root"):
        with browser.new_context(base_url=url) as context:
            page = context.new_page()
            page.goto("/sign-in")
            page.get_by_label("Name").fill(person)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(f"{url}/")
            signed_in[person] = context.storage_state()
    for name, (person, way) in pages.items():
        with browser.new_context(base_url=url, storage_state=signed_in.get(person)) as context:
            page = context.new_page()
            for size, width in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": 800})
                page.goto(way) if isinstance(way, str) else way(page)
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                    take(page, output / f"{name}-{size}-{scheme}.png")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "screenshots")
    output = arguments.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*COMMAND, "demo", "-o", folder], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        models, url = Path(folder) / "model", f"sqlite:///{folder}/web.db"
        advisor, database = Advisor.load(models), Database(url)
        clients = fill(database, advisor)
        database.close()
        with serving(models, url, Path(folder) / "log") as server, sync_playwright() as playwright:
            browser = start_chromium(playwright.chromium)
            photograph(browser, server.url, advisor, clients, output)
            browser.close()


if __name__ == "__main__":
    main()
