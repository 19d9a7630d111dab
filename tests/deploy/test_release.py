"""What scripts/release puts beside the packages: a bill of materials, and requirements with hashes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv") or next((str(path) for path in (ROOT / ".tools" / "bin" / "uv",) if path.exists()), None)
UV = os.environ.get("UV", UV)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a release makes, in a copy of what it needs."""
    if UV is None:
        pytest.skip("needs uv: scripts/setup installs it")
    clone = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "uv.lock", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "scripts", clone / "scripts")
    environment = {**os.environ, "SKIP_CHECK": "1", "UV": UV, "PYTHON": sys.executable}
    done = subprocess.run([clone / "scripts" / "release"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode and "Failed to fetch" in done.stderr:
        pytest.skip("needs the build tool from an index of packages")
    assert done.returncode == 0, done.stderr
    return clone / "dist"


def locked() -> dict[str, set[str]]:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    versions: dict[str, set[str]] = {}
    for package in packages:
        versions.setdefault(package["name"], set()).add(package.get("version", ""))
    return versions


def test_the_bill_of_materials_names_what_is_locked(dist: Path) -> None:
    bill = json.loads((dist / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    components = {(entry["name"], entry["version"]) for entry in bill["components"]}
    assert all(version in locked()[name] for name, version in components)
    assert {"numpy", "fastapi", "psycopg", "authlib", "adbc-driver-postgresql"} <= {name for name, _ in components}
    assert not {"pytest", "ruff", "mypy"} & {name for name, _ in components}
    assert all(entry["purl"] == f"pkg:pypi/{entry['name']}@{entry['version']}" for entry in bill["components"])
    references = {entry["bom-ref"] for entry in [*bill["components"], bill["metadata"]["component"]]}
    assert {entry["ref"] for entry in bill["dependencies"]} <= references
    assert bill["metadata"]["component"]["version"] in next(dist.glob("*.whl")).name


def test_every_requirement_has_a_version_and_hashes(dist: Path) -> None:
    text = (dist / "requirements.txt").read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 50
    for entry in entries:
        assert re.match(r"[\w.-]+==[\w.]+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_no_address_is_in_them(dist: Path) -> None:
    for name in ("requirements.txt", "sbom.cdx.json"):
        assert not re.search(r"\w+://|\bfile:", (dist / name).read_text())
