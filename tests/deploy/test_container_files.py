"""The files of deploy/ agree with each other, and promise what docs/deploy.md says of them."""

from __future__ import annotations

import re
import shlex
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="reads compose.yaml with PyYAML")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def script(name: str) -> Any:
    """A script without a suffix as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.dont_write_bytecode", True)
        patch.setitem(__import__("sys").modules, loader.name, module)
        loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    return list(script("check-container").steps((DEPLOY / "Containerfile").read_text()))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


def test_the_image_runs_as_a_user_without_rights_and_has_a_health_check(steps: list[tuple[str, str]]) -> None:
    last = steps[max(place for place, (name, _) in enumerate(steps) if name == "FROM") :]
    given = dict(last)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", given["USER"])
    assert "/readyz" in given["HEALTHCHECK"]
    assert "NUMBA_CACHE_DIR" in "".join(text for name, text in last if name == "RUN")
    after = last[[name for name, _ in last].index("USER") :]
    assert "RUN" not in dict(after)


def test_the_base_is_named_with_a_tag_and_packages_come_from_the_lock_file(steps: list[tuple[str, str]]) -> None:
    assert re.fullmatch(r"BASE=[\w./-]+:[\w.-]+", dict(steps)["ARG"])
    (install,) = [text for name, text in steps if name == "RUN" and "uv sync" in text]
    assert "--frozen" in install
    assert "--no-dev" in install
    assert "--no-editable" in install


def test_everything_that_is_copied_is_there(steps: list[tuple[str, str]]) -> None:
    for name, text in steps:
        if name == "COPY" and not text.startswith("--from"):
            for source in shlex.split(text)[:-1]:
                assert (ROOT / source).exists(), source


def test_every_service_but_the_database_is_read_only(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {name for name, service in services.items() if not service.get("read_only")} == {"db"}
    for name in ("app-a", "app-b", "refresh"):
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert compose["networks"]["inside"]["internal"] is True


def test_what_services_name_is_defined(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert {*service.get("secrets", [])} <= {*compose["secrets"]}
        assert {*service.get("networks", [])} <= {*compose["networks"]}
        assert {*service.get("depends_on", [])} <= {*compose["services"]}
        for volume in service.get("volumes", []):
            place = volume.partition(":")[0]
            assert place in compose["volumes"] or place.startswith("./")


def test_the_application_trusts_the_proxy_alone(compose: dict[str, Any]) -> None:
    services = compose["services"]
    address = services["proxy"]["networks"]["inside"]["ipv4_address"]
    assert services["app-a"]["environment"]["FORWARDED_ALLOW_IPS"] == address


def test_the_proxy_knows_both_instances_and_logs_no_query(compose: dict[str, Any]) -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    assert re.findall(r"server (app-\w):8000", text) == [name for name in compose["services"] if "app-" in name]
    assert "ssl_protocols       TLSv1.2 TLSv1.3;" in text
    (log,) = re.findall(r"log_format[^;]*;", text)
    assert "$uri" in log
    assert not re.search(r"\$(request|request_uri|args|query_string|http_referer)\b", log)
    assert text.count("{") == text.count("}")


def test_secrets_are_neither_in_the_repository_nor_in_the_image() -> None:
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text().split()
    assert "deploy/secrets" in (ROOT / ".containerignore").read_text().split()
