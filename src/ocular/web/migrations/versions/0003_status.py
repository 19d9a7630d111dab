"""Feedback has a status, with the values of ocular.feedback.Status, in place of a verdict."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

RENAMED = {"pursue": "pursuing", "not relevant": "not a fit"}  # won and lost stay


def upgrade() -> None:
    op.alter_column("feedback", "verdict", new_column_name="status")
    feedback = sa.table("feedback", sa.column("status", sa.String))
    for verdict, status in RENAMED.items():
        op.execute(feedback.update().where(feedback.c.status == verdict).values(status=status))
