"""Feedback says what its pattern was called, tokens expire, and forms are signed with a key."""

import secrets
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("feedback", sa.Column("label", sa.String(length=500), server_default=sa.text("''"), nullable=False))
    feedback = sa.table("feedback", sa.column("pattern", sa.Integer), sa.column("label", sa.String))
    named = sa.literal("pattern ") + sa.cast(feedback.c.pattern, sa.String)
    op.execute(feedback.update().where(feedback.c.pattern.is_not(None)).values(label=named))
    op.create_index("ix_feedback_client_id", "feedback", ["client", "id"])  # two long names would not fit into one
    op.drop_index("ix_feedback_client", "feedback")

    op.add_column("tokens", sa.Column("expires", sa.DateTime(timezone=True), nullable=True))
    tokens = sa.table("tokens", sa.column("expires", sa.DateTime(timezone=True)))
    op.execute(tokens.update().values(expires=datetime.now(UTC) + timedelta(days=365)))  # none ends with the upgrade
    with op.batch_alter_table("tokens") as batch:
        batch.alter_column("expires", nullable=False)

    keys = op.create_table(
        "keys",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.bulk_insert(keys, [{"name": "forms", "secret": secrets.token_hex(32)}])
