"""Alembic asks this file how to migrate: on the connection that `Database.upgrade` gives it."""

from alembic import context

from ocular.web.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
