"""Who is who at the provider of single sign-on, and how and when a session was opened."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "identities",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("issuer", sa.String(length=500), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("issuer", "subject"),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"])
    op.add_column(
        "sessions", sa.Column("method", sa.String(length=16), server_default=sa.text("'password'"), nullable=False)
    )
    op.add_column("sessions", sa.Column("id_token", sa.Text(), server_default=sa.text("''"), nullable=False))
