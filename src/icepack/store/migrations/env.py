"""Alembic's entry point: runs migrations on the caller's connection, inside the caller's transaction."""

from __future__ import annotations

from alembic import context

from icepack.store.schema import metadata, schema_version

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=schema_version.name,
)
with context.begin_transaction():
    context.run_migrations()
