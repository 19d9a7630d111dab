"""Single sign-on with OpenID Connect; its packages are imported only where it is set up."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ocular.errors import MissingExtraError

if TYPE_CHECKING:
    from ocular.web.database import Database
    from ocular.web.settings import Settings
    from ocular.web.sso.sign_on import SingleSignOn


def create_single_sign_on(settings: Settings, database: Database) -> SingleSignOn | None:
    """Return single sign-on as the settings say; None where they do not ask for it."""
    if settings.sso is None:
        return None
    missing = [name for name in ("authlib", "joserfc", "httpx") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"single sign-on needs {', '.join(missing)}; pip install 'ocular-rec[web,sso]'")
    from ocular.web.sso.sign_on import SingleSignOn  # noqa: PLC0415 - the packages may not be there

    return SingleSignOn(settings.sso, database, settings.lifetime)
