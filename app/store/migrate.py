"""The schema's version: bring a database to it, and ask whether it is there."""

import asyncio
import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from alembic.util.exc import CommandError

from app.store.transaction import Store

ROOT = Path(__file__).resolve().parents[2]

_one_at_a_time = threading.Lock()  # alembic keeps its context in the module


def _config(dsn: str | None) -> Config:
    config = Config(toml_file=ROOT / "pyproject.toml")
    config.attributes["url"] = dsn
    return config


async def upgrade(dsn: str) -> None:
    """Brings the database to the newest schema. Any number at once: one migrates, the others wait and find it done.

    A schema that a newer release made is left as it is: that release only added to ours."""

    def upgraded() -> None:
        with _one_at_a_time:
            try:
                command.upgrade(_config(dsn), "head")
            except CommandError as error:
                if not isinstance(error.__cause__, ResolutionError):  # its revision is none of ours
                    raise

    await asyncio.to_thread(upgraded)


def head() -> str:
    """The newest revision this code knows."""
    return ScriptDirectory.from_config(_config(None)).get_current_head() or ""


async def is_current(store: Store, known: str) -> bool:
    """Whether the database is at ``known`` or at a revision this code does not know (a newer release's: it only added)."""
    async with store.transaction() as tx:
        found = await tx.fetchval("select version_num from alembic_version")
    if found == known:
        return True
    script = ScriptDirectory.from_config(_config(None))
    return found is not None and found not in {revision.revision for revision in script.walk_revisions()}
