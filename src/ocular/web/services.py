"""What a request needs, made once for the whole process: started before the first request, stopped after the last."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cached_property

from sqlalchemy import select

from ocular.web.assignment_cache import AssignmentCache
from ocular.web.audit import ViewLog
from ocular.web.auth import Authenticator
from ocular.web.csv_export import Exports
from ocular.web.database import Database, DatabaseError
from ocular.web.news import News
from ocular.web.outcomes import OutcomeLog
from ocular.web.password_threads import PasswordThreads
from ocular.web.pattern_names import PatternNames
from ocular.web.registry import Registry, ServedModel
from ocular.web.settings import Settings
from ocular.web.shown import ShownLog
from ocular.web.sso import create_single_sign_on
from ocular.web.tables import Key
from ocular.web.uploads import Uploads
from ocular.web.visibility import Visibility

STOP_SECONDS = 10.0  # for a comparison of models that is under way
MAX_COMPUTING = 2  # threads that explain and write pages at once: they take turns at one interpreter


class Services:
    """The database, the served model and what is built on them."""

    def __init__(self, settings: Settings, database: Database, registry: Registry) -> None:
        self.settings, self.database, self.registry = settings, database, registry
        self.authenticator, self.view_log = Authenticator(settings, database), ViewLog(database)
        self.sso = create_single_sign_on(settings, database)
        self.assignments = AssignmentCache(database, registry)
        self.visibility = Visibility(database, self.assignments, settings.names)
        self.outcomes, self.shown, self.news = OutcomeLog(database), ShownLog(database), News(database)
        registry.on_served = self.news.begin
        self.pattern_names = PatternNames(database)
        registry.given_names = self.pattern_names.names_of
        self.password_threads, self.exports = PasswordThreads(), Exports()
        self.uploads, self.computing = Uploads(database), threading.BoundedSemaphore(MAX_COMPUTING)
        # reading years of feedback takes seconds once: nobody should wait for it
        self._warming = threading.Thread(target=self._warm, name="outcomes", daemon=True)
        self._started = False

    def start(self) -> None:
        """Bring the tables up to date and load a model, or raise an error of one line; a second call does nothing."""
        if not self._started:
            self.database.upgrade()
            self.registry.start()
            self._warming.start()
            self._started = True

    def _warm(self) -> None:
        with suppress(DatabaseError):  # the first request reads it then
            self.outcomes.read()

    def stop(self) -> None:
        self.registry.stop()
        self.news.wait(STOP_SECONDS)
        if self._warming.is_alive():
            self._warming.join(STOP_SECONDS)
        self.shown.stop()
        self.password_threads.stop()
        self.database.close()

    @property
    def served(self) -> ServedModel:
        return self.registry.current

    @property
    def cookie(self) -> str:
        """The name of the session cookie; a browser accepts this prefix only over TLS and from this very host."""
        return "__Host-ocular_session" if self.settings.secure else "ocular_session"

    @cached_property
    def signing_key(self) -> str:
        """The key that seals in forms are signed with, the same for all processes on one database."""
        with self.database.reading() as transaction:
            return transaction.scalars(select(Key.secret).where(Key.name == "forms")).one()
