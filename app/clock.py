"""The impure values, handed in from the composition root so that tests can freeze them.

Times that decide something (leases, deadlines, retention) are the database's ``now()``, never a replica's: clocks differ.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import uuid_utils.compat as uuid_utils


def now() -> datetime:
    """The aware wall-clock time; for logs and headers only."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds of a clock that never goes back; for durations and windows in memory."""
    return time.monotonic()


def new_id() -> UUID:
    """A new uuid7: sortable by the time it was made, monotonic within this process."""
    return uuid_utils.uuid7()


NewId = Callable[[], UUID]
