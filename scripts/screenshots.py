"""
Pictures of every page of the demo, for every role: light and dark, wide and on a phone.

python scripts/screenshots.py [-o screenshots] [--readme]     needs Chromium and Pillow

Pages are found by following links from the first one; of pages that have one address and many contents, such as those
of clients, the one of the demo's first client is taken. --readme puts the README's into docs/screenshots.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_plus, urljoin, urlsplit

from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "web"))

from browser_support import COMMAND, start_chromium  # noqa: E402

from ocular.synthetic.showcase_names import HERO, HERO_PRODUCT  # noqa: E402
from ocular.web.app import create_app  # noqa: E402
from ocular.web.settings import Settings  # noqa: E402

ROLES = {"seller": "maya", "manager": "hanna", "admin": "ruth"}
WIDTHS = {"wide": 1280, "phone": 390}
MAX_HEIGHT, README_HEIGHT, COLOURS = 2400, 1100, 160
README = ("seller-today-wide", "seller-recommendation-wide")
NO_PAGES = re.compile(r"/(static|api|sign-in|sign-out|invitation|healthz|readyz|metrics)\b|\.csv$")


@contextlib.contextmanager
def demo(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve the demo; give the address of the site and everybody's password."""
    command = [*COMMAND, "demo", "-o", str(folder), "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # noqa: S603
        passwords: dict[str, str] = {}
        site, lines = "", []
        while not site:
            line = process.stdout.readline()  # type: ignore[union-attr]
            lines.append(line)
            if not line:
                raise SystemExit(f"screenshots: the demo ended early:\n{''.join(lines)}")
            if (words := line.split()) and words[0] in ROLES.values():
                passwords[words[0]] = words[1]
            if served := re.search(r"Serving on (\S+);", line):
                site = served[1]
        with (folder / "log").open("w") as log:  # a full pipe would stop the server
            copier = subprocess.Popen(["cat"], stdin=process.stdout, stdout=log)  # noqa: S607
            try:
                yield site, passwords
            finally:
                process.terminate()
                copier.wait()


def sign_in(browser: Browser, site: str, name: str, password: str) -> BrowserContext:
    context = browser.new_context(base_url=site)
    page = context.new_page()
    page.goto("/sign-in")
    page.locator("[name=name]").fill(name)
    page.locator("[name=password]").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site}/")
    return context


def find_pages(context: BrowserContext, site: str) -> dict[str, str]:
    """Return an address for each page that can be reached, by its path: one about the hero, or else the first."""
    page, pages, waiting = context.new_page(), {"/": "/"}, ["/"]
    while waiting:
        page.goto(waiting.pop(0))
        for link in page.locator("a[href]").evaluate_all("links => links.map(link => link.getAttribute('href'))"):
            address = urljoin(page.url, link)
            parts = urlsplit(address)
            if not address.startswith(site) or NO_PAGES.search(parts.path) or parts.path in ("/", ""):
                continue
            known = pages.get(parts.path)
            if known is None and not is_page(context, address):
                continue
            if known is None or interest(address) > interest(known):
                pages[parts.path] = address
                waiting.append(address)
    page.close()
    return pages


def interest(address: str) -> int:
    """Return how much an address says about the hero."""
    text = unquote_plus(address)
    return (HERO in text) + (HERO_PRODUCT in text)


def is_page(context: BrowserContext, address: str) -> bool:
    """Return whether an address is a page and no file to download."""
    answer = context.request.get(address)
    return answer.ok and "text/html" in answer.headers.get("content-type", "")


def missed(pages: set[str]) -> list[str]:
    """Return the addresses that the application has and no role has reached, without files and those of programs."""
    app = create_app(Settings(ROOT))
    paths = {route.path for route in app.routes if "GET" in getattr(route, "methods", ())}  # type: ignore[attr-defined]
    return sorted(path for path in paths - pages if not NO_PAGES.search(path))


def take(page: Page, path: Path) -> None:
    """Save a picture with few colours, which are enough for a page of text."""
    height = min(page.evaluate("document.documentElement.scrollHeight"), MAX_HEIGHT)
    clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}  # type: ignore[index]
    image = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))  # type: ignore[arg-type]
    image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def photograph(context: BrowserContext, role: str, pages: dict[str, str], output: Path) -> None:
    page = context.new_page()
    for path, address in pages.items():
        name = path.strip("/").replace("/", "-") or "today"
        for size, width in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(address)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                take(page, output / f"{role}-{name}-{size}-{scheme}.png")
    page.close()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("-o", "--output", type=Path, default=ROOT / "screenshots")
    arguments.add_argument("--readme", action="store_true", help="put the README's pictures into docs/screenshots")
    given = arguments.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder)) as (site, passwords), sync_playwright() as tools:
        browser = start_chromium(tools.chromium)
        with browser.new_context(base_url=site) as context:
            photograph(context, "nobody", {"/sign-in": "/sign-in"}, given.output)
        reached: set[str] = set()
        for role, name in ROLES.items():
            with sign_in(browser, site, name, passwords[name]) as context:
                pages = find_pages(context, site)
                photograph(context, role, pages, given.output)
            reached |= set(pages)
            print(f"{role}: {', '.join(pages)}")
        browser.close()
    print(f"not reached by a link: {', '.join(missed(reached)) or 'none'}")
    if given.readme:
        for name in README:
            for scheme in ("light", "dark"):
                picture = f"{name}-{scheme}.png"
                with Image.open(given.output / picture) as image:
                    top = image.crop((0, 0, image.width, min(image.height, README_HEIGHT)))
                    top.save(ROOT / "docs" / "screenshots" / picture, optimize=True)


if __name__ == "__main__":
    main()
