"""The migrations make the tables that the code declares, and there is one way to the newest schema."""

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from app.store.engine import sqlalchemy_engine
from app.store.schema import metadata
from tests.architecture import ROOT


def scripts() -> ScriptDirectory:
    return ScriptDirectory(str(ROOT / "migrations"))


def test_there_is_one_newest_migration_and_one_first() -> None:
    assert len(scripts().get_heads()) == 1
    assert len(scripts().get_bases()) == 1


@pytest.mark.timeout(120)
def test_a_migrated_database_is_what_the_tables_declare(database_url: str) -> None:
    def differences(connection: Connection) -> list[object]:
        return compare_metadata(MigrationContext.configure(connection), metadata)

    async def compare() -> list[object]:
        engine = sqlalchemy_engine(database_url)
        async with engine.connect() as connection:
            found = await connection.run_sync(differences)
        await engine.dispose()
        return found

    assert asyncio.run(compare()) == []
