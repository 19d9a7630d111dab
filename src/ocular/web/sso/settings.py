"""The settings of single sign-on, read from a TOML file."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ocular.errors import ConfigError

SECRET_VARIABLE = "OCULAR_SSO_CLIENT_SECRET"  # noqa: S105 - the name of a variable
MAX_SUBJECT = 255  # characters, by the standard
CALLBACK = "/sign-in/sso/callback"
MAX_TEAM = 80  # characters, as in the table of users; `ocular --help` must not load a database's packages for it
ROLE_KEYS = {"admin_groups": "admin", "manager_groups": "manager", "seller_groups": "seller"}  # highest first


@dataclass(frozen=True)
class SsoSettings:
    """A provider, what its groups mean here, and who may still use a password."""

    issuer: str
    client_id: str
    site: str  # the address people reach the application at, without a path
    client_secret: str = field(default="", repr=False)  # "" for a public client, which has PKCE alone
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"  # dots lead into nested claims
    roles: dict[str, str] = field(default_factory=dict)  # by group
    teams: dict[str, str] = field(default_factory=dict)  # by group, in the order of the file
    local_passwords: bool = True
    break_glass: str = ""  # the account whose password always works
    link_by_username: bool = False
    skew: float = 60.0  # seconds that the provider's clock may differ from ours
    timeout: float = 5.0  # seconds for an answer of the provider

    @property
    def redirect_uri(self) -> str:
        """The address that has to be registered with the provider."""
        return self.site + CALLBACK


def read_sso_settings(path: Path) -> SsoSettings:
    """Return the settings in the table [sso] of a file, or raise an error of one line."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"expected a TOML file for single sign-on, got {path}: {error}") from None
    table = content.get("sso")
    if not isinstance(table, dict):
        raise ConfigError(f"expected a table [sso] in {path}; docs/single_sign_on.md shows one")
    return _settings_of(dict(table), path)


def _settings_of(table: dict[str, Any], path: Path) -> SsoSettings:
    given: dict[str, Any] = {}
    for key in ("issuer", "client_id", "site"):
        given[key] = _text(table, key, path)
        if not given[key]:
            raise ConfigError(f'expected {key} = "…" under [sso] in {path}')
    given["site"] = given["site"].rstrip("/")
    for key in ("issuer", "site"):
        check_address(given[key], key)
    if urlsplit(given["site"]).path:
        raise ConfigError(f"expected site without a path, got {given['site']!r}; use https://ocular.example.com")
    given["client_secret"] = _secret(table, path)
    given["roles"] = {group: role for key, role in reversed(ROLE_KEYS.items()) for group in _texts(table, key, path)}
    if not given["roles"]:
        raise ConfigError(f"expected admin_groups, manager_groups or seller_groups in {path}; else nobody may sign in")
    given["teams"] = _teams(table, path)
    for key in ("groups_claim", "break_glass"):
        if key in table:
            given[key] = _text(table, key, path)
    given["break_glass"] = given.get("break_glass", "").casefold()
    if "scopes" in table:
        given["scopes"] = ("openid", *(scope for scope in _texts(table, "scopes", path) if scope != "openid"))
    for key in ("local_passwords", "link_by_username"):
        value = table.pop(key, getattr(SsoSettings, key))
        if not isinstance(value, bool):
            raise ConfigError(f"expected true or false for {key} in {path}, got {value!r}")
        given[key] = value
    for key, largest in (("skew", 300), ("timeout", 30)):
        value = table.pop(key, getattr(SsoSettings, key))
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= largest:
            raise ConfigError(f"expected {key} of 1 to {largest} seconds in {path}, got {value!r}")
        given[key] = float(value)
    if not given["local_passwords"] and not given["break_glass"]:
        raise ConfigError(
            f'expected break_glass = "USERNAME" in {path}: without passwords, one account must keep its own'
        )
    if table:
        raise ConfigError(f"unknown keys under [sso] in {path}: {', '.join(sorted(table))}")
    return SsoSettings(**given)


def check_address(address: str, what: str) -> None:
    """Raise unless an address is one of TLS, or of this machine."""
    parts = urlsplit(address)
    local = parts.hostname == "localhost" or _is_loopback(parts.hostname or "")
    if (
        not parts.hostname
        or parts.query
        or parts.fragment
        or parts.username
        or (parts.scheme != "https" and not (parts.scheme == "http" and local))
    ):
        raise ConfigError(f"expected an address https://… for {what}, got {address!r}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _text(table: dict[str, Any], key: str, path: Path) -> str:
    value = table.pop(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"expected text for {key} in {path}, got {value!r}")
    return value.strip()


def _texts(table: dict[str, Any], key: str, path: Path) -> list[str]:
    value = table.pop(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ConfigError(f'expected a list such as ["sales"] for {key} in {path}, got {value!r}')
    return value


def _teams(table: dict[str, Any], path: Path) -> dict[str, str]:
    teams = table.pop("teams", {})
    if not isinstance(teams, dict) or not all(
        isinstance(team, str) and len(team) <= MAX_TEAM for team in teams.values()
    ):
        raise ConfigError(f'expected lines such as "group" = "Team" under [sso.teams] in {path}')
    return teams


def _secret(table: dict[str, Any], path: Path) -> str:
    """Return the client's secret: from the environment, a file of its own, or the settings themselves."""
    secret, file = _text(table, "client_secret", path), _text(table, "client_secret_file", path)
    if os.environ.get(SECRET_VARIABLE):
        return os.environ[SECRET_VARIABLE].strip()
    if not file:
        return secret
    try:
        return (path.parent / file).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"expected the client's secret in {file}, got {error}") from None
