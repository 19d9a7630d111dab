"""Sessions know their browser and when they were last proven; tokens have scopes: those that exist keep both."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("authenticated_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("sessions", sa.Column("browser", sa.String(length=80), server_default=sa.text("''"), nullable=False))
    op.add_column(
        "tokens", sa.Column("scopes", sa.String(length=80), server_default=sa.text("'read feedback'"), nullable=False)
    )
