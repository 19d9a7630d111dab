"""Follow-ups and deal values, what was shown, names of patterns, links that work once, and what a model changed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("users", sa.Column("news", sa.String(length=500), server_default=sa.text("''"), nullable=False))
    op.add_column("feedback", sa.Column("due", sa.Date(), nullable=True))
    op.add_column("feedback", sa.Column("amount", sa.Double(), nullable=True))
    op.create_index("ix_feedback_due", "feedback", ["due"])
    op.create_index("ix_feedback_product_id", "feedback", ["product", "id"])
    op.create_table(
        "shown",
        sa.Column("pair", sa.String(length=64), nullable=False),
        sa.Column("client", sa.String(length=500), nullable=False),
        sa.Column("product", sa.String(length=500), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=500), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pair"),
    )
    op.create_index("ix_shown_at", "shown", ["at"])
    op.create_index("ix_shown_user_id", "shown", ["user_id"])
    op.create_table(
        "pattern_names",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("products", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "links",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("expires", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("ix_links_user_id", "links", ["user_id"])
    op.create_table(
        "model_changes",
        sa.Column("version", sa.String(length=500), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("renamed", sa.Text(), nullable=False),
        sa.Column("changes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("version"),
    )
    op.create_index("ix_model_changes_at", "model_changes", ["at"])
