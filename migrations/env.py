"""Alembic's environment: async engine, our metadata, one transaction for each migration, a lock timeout before anything else.

The address comes from whoever calls (``config.attributes["url"]``), else from the settings.
"""

import asyncio

import sqlalchemy as sa
from alembic import context
from sqlalchemy.engine import Connection

from app.settings import Settings
from app.store.engine import sqlalchemy_engine
from app.store.schema import metadata


def url() -> str:
    given = context.config.attributes.get("url")
    if given is None:
        configured = Settings().database_url
        if configured is None:
            raise SystemExit(
                "DATABASE_URL is not set; the embedded Postgres is migrated by `python -m app migrate`"
            )
        given = configured.get_secret_value()
    return str(given)


def migrate(connection: Connection) -> None:
    # Two replicas that start at once migrate one after the other.
    connection.execute(sa.text("select pg_advisory_lock(4207849484)"))
    # A migration that waits for a lock makes every later query wait behind it: give up and be run again instead.
    connection.execute(sa.text("set lock_timeout = '5s'"))
    connection.commit()
    try:
        context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()
    finally:
        connection.rollback()
        connection.execute(sa.text("select pg_advisory_unlock(4207849484)"))
        connection.commit()


async def online() -> None:
    engine = sqlalchemy_engine(url())
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


if context.is_offline_mode():
    context.configure(dialect_name="postgresql", target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    asyncio.run(online())
