"""What several processes share: uploaded files, and when something that each keeps in memory was changed."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=500), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("n_bytes", sa.Integer(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("links", sa.LargeBinary(), nullable=False),
        sa.Column("done", sa.Boolean(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "kind"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_uploads_expires", "uploads", ["expires"])
    op.create_table(
        "changes",
        sa.Column("subject", sa.String(length=16), nullable=False),
        sa.Column("stamp", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
    )
