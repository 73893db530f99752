"""The statements that the README gives to an operator are ones that this schema takes."""

import asyncpg
import pytest

from tests.architecture.readme import README, code

STATEMENTS = code(README.read_text(), "sql")


def test_there_are_statements():
    assert len(STATEMENTS) >= 5


@pytest.mark.parametrize("statement", STATEMENTS, ids=[each.strip()[:30] for each in STATEMENTS])
async def test_a_statement_of_the_readme_runs(database_url: str, statement: str):
    database = await asyncpg.connect(database_url)
    try:
        assert await database.fetch(statement) is not None
    finally:
        await database.close()
