"""The tables of the application: people, sessions, assignments, feedback and the audit log."""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Date,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

NAME, LABEL, NOTE, DIGEST = 80, 500, 4000, 64  # maximum lengths in characters


class Role(StrEnum):
    SELLER = "seller"
    MANAGER = "manager"
    ADMIN = "admin"


class Scope(StrEnum):
    """What a token may be used for."""

    READ = "read"
    FEEDBACK = "feedback"  # to give it; all feedback is read with READ


def now() -> datetime:
    return datetime.now(UTC)


class Moment(TypeDecorator[datetime]):
    """A time in UTC. SQLite drops the time zone, PostgreSQL returns its own."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME), unique=True)  # to sign in with, lower case
    full_name: Mapped[str] = mapped_column(String(NAME))
    role: Mapped[str] = mapped_column(String(16))
    team: Mapped[str] = mapped_column(String(NAME), default="")
    password: Mapped[str] = mapped_column(String(200))  # an argon2id hash
    active: Mapped[bool] = mapped_column(default=True)
    created: Mapped[datetime] = mapped_column(Moment, default=now)
    news: Mapped[str] = mapped_column(String(LABEL), default="", server_default=text("''"))  # model seen in What's new


class Session(Base):
    """One browser that is signed in. The cookie itself is not stored, only its digest."""

    __tablename__ = "sessions"
    digest: Mapped[str] = mapped_column(String(DIGEST), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    csrf: Mapped[str] = mapped_column(String(DIGEST))
    address: Mapped[str] = mapped_column(String(NAME))
    created: Mapped[datetime] = mapped_column(Moment, default=now)
    seen: Mapped[datetime] = mapped_column(Moment, default=now)
    authenticated_at: Mapped[datetime | None] = mapped_column(Moment, default=now)  # last proof of who it is
    browser: Mapped[str] = mapped_column(String(NAME), default="", server_default=text("''"))  # its family
    method: Mapped[str] = mapped_column(String(16), default="password", server_default=text("'password'"))  # or "sso"
    id_token: Mapped[str] = mapped_column(Text, default="", server_default=text("''"))  # for the provider's sign-out
    user: Mapped[User] = relationship(lazy="joined")


class Identity(Base):
    """Somebody at a provider of single sign-on, who may sign in as a user."""

    __tablename__ = "identities"
    __table_args__ = (UniqueConstraint("issuer", "subject"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    issuer: Mapped[str] = mapped_column(String(LABEL))
    subject: Mapped[str] = mapped_column(String(255))
    created: Mapped[datetime] = mapped_column(Moment, default=now)
    user: Mapped[User] = relationship(lazy="joined")


class Token(Base):
    """A key for the API. It is shown once; only its digest is stored."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(DIGEST), unique=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    label: Mapped[str] = mapped_column(String(NAME))
    created: Mapped[datetime] = mapped_column(Moment, default=now)
    expires: Mapped[datetime] = mapped_column(Moment)
    used: Mapped[datetime | None] = mapped_column(Moment)
    scopes: Mapped[str] = mapped_column(String(NAME), default="read", server_default=text("'read feedback'"))
    user: Mapped[User] = relationship(lazy="joined")


class Failure(Base):
    """A refused sign-in, counted for the lock-out."""

    __tablename__ = "failures"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME), index=True)
    address: Mapped[str] = mapped_column(String(NAME), index=True)
    at: Mapped[datetime] = mapped_column(Moment, default=now, index=True)


class Assignment(Base):
    """The person who looks after a client."""

    __tablename__ = "assignments"
    client: Mapped[str] = mapped_column(String(LABEL), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)


class Feedback(Base):
    """What a person said of a recommendation. Rows are only ever added: the latest one of a pair has its status."""

    __tablename__ = "feedback"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(Moment, default=now, index=True)
    client: Mapped[str] = mapped_column(String(LABEL))
    product: Mapped[str] = mapped_column(String(LABEL))
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    status: Mapped[str] = mapped_column(String(16))  # of ocular.feedback.Status
    reason: Mapped[str] = mapped_column(String(LABEL), default="")
    note: Mapped[str] = mapped_column(Text, default="")
    model: Mapped[str] = mapped_column(String(LABEL))  # version that recommended it
    confidence: Mapped[float]
    pattern: Mapped[int | None]  # the co-cluster of the strongest reason
    label: Mapped[str] = mapped_column(String(LABEL), default="", server_default=text("''"))  # its name at the time
    due: Mapped[date | None] = mapped_column(Date, index=True)  # of the follow-up, or the day a snoozed one returns
    amount: Mapped[float | None]  # what the deal was worth, once won
    user: Mapped[User] = relationship(lazy="joined")
    __table_args__ = (Index("ix_feedback_client_id", "client", "id"), Index("ix_feedback_product_id", "product", "id"))


class Shown(Base):
    """The first time that a recommendation was shown to somebody who may act on it."""

    __tablename__ = "shown"
    pair: Mapped[str] = mapped_column(String(DIGEST), primary_key=True)  # of both labels, which are too long for a key
    client: Mapped[str] = mapped_column(String(LABEL))
    product: Mapped[str] = mapped_column(String(LABEL))
    at: Mapped[datetime] = mapped_column(Moment, default=now, index=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    model: Mapped[str] = mapped_column(String(LABEL))


class PatternName(Base):
    """The name that a manager gave to a pattern, and the products by which it is known again after a refit."""

    __tablename__ = "pattern_names"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME))
    products: Mapped[str] = mapped_column(Text)  # labels as a JSON list, the most typical first
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    at: Mapped[datetime] = mapped_column(Moment, default=now)


class Link(Base):
    """A link that works once: an invitation to choose a password, or a sign-in. Only its digest is stored."""

    __tablename__ = "links"
    digest: Mapped[str] = mapped_column(String(DIGEST), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    purpose: Mapped[str] = mapped_column(String(16))  # "invitation" or "sign-in"
    created: Mapped[datetime] = mapped_column(Moment, default=now)
    expires: Mapped[datetime] = mapped_column(Moment)
    user: Mapped[User] = relationship(lazy="joined")


class StoredUpload(Base):
    """An uploaded file that waits for a decision."""

    __tablename__ = "uploads"
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)  # "assignments" or "users"
    key: Mapped[str] = mapped_column(String(DIGEST), unique=True)
    name: Mapped[str] = mapped_column(String(LABEL))  # of the file
    content: Mapped[bytes] = mapped_column(LargeBinary)
    n_bytes: Mapped[int]
    preview: Mapped[str] = mapped_column(Text)  # as JSON
    links: Mapped[bytes] = mapped_column(LargeBinary)  # invitations, sealed
    done: Mapped[bool] = mapped_column(default=False)
    expires: Mapped[datetime] = mapped_column(Moment, index=True)


class Change(Base):
    """The latest change of something that each process keeps in memory, by which it knows when to read it again."""

    __tablename__ = "changes"
    subject: Mapped[str] = mapped_column(String(16), primary_key=True)
    stamp: Mapped[str] = mapped_column(String(DIGEST))


class ModelChanges(Base):
    """What a model changed against the one that was served before it, for What's new."""

    __tablename__ = "model_changes"
    version: Mapped[str] = mapped_column(String(LABEL), primary_key=True)
    at: Mapped[datetime] = mapped_column(Moment, default=now, index=True)
    renamed: Mapped[str] = mapped_column(Text)  # patterns that have another label now, as JSON: old to new
    changes: Mapped[bytes] = mapped_column(LargeBinary)  # compressed; empty once newer models have come


class AuditEntry(Base):
    """One action: who did what, when and from where."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(Moment, default=now, index=True)
    name: Mapped[str] = mapped_column(String(NAME), index=True)  # stays when the person is gone
    action: Mapped[str] = mapped_column(String(NAME))
    subject: Mapped[str] = mapped_column(Text, default="")
    address: Mapped[str] = mapped_column(String(NAME), default="")
    # number and label of the API token that acted on behalf of the person
    token: Mapped[str] = mapped_column(String(LABEL), default="", server_default=text("''"))
    digest: Mapped[str] = mapped_column(String(DIGEST), default="", server_default=text("''"))  # see audit_chain.py


class AuditHead(Base):
    """The end of the audit log's chain: one row, locked by whoever adds entries."""

    __tablename__ = "audit_head"
    id: Mapped[int] = mapped_column(primary_key=True)
    count: Mapped[int]  # entries ever written, those since removed too
    digest: Mapped[str] = mapped_column(String(DIGEST))  # of the latest entry
    seal: Mapped[str] = mapped_column(String(DIGEST))  # signature of both
    prunable: Mapped[int] = mapped_column(default=0)  # triggers let entries up to this id be deleted


class Key(Base):
    """A key that seals in forms are signed with, the same for all processes on one database."""

    __tablename__ = "keys"
    name: Mapped[str] = mapped_column(String(NAME), primary_key=True)
    secret: Mapped[str] = mapped_column(String(DIGEST))
