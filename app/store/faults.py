"""What a fault of the store means for the request that met it.

``transient``: a repeat may succeed. ``permanent``: a repeat reads the same row. ``conflict``: somebody else was first. Everything
the database did not say is transient only when the connection itself failed.
"""

from enum import StrEnum

import asyncpg


class CorruptRow(Exception):
    """A stored row that cannot be read, or is of an unknown kind."""


class LeaseLost(Exception):
    """The run is no longer this owner's: another epoch, or no longer running."""


class Fault(StrEnum):
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    CONFLICT = "conflict"


_CONFLICTS = ("40001", "40P01", "23505")  # serialization failure, deadlock, unique violation
# Classes of SQLSTATE that a repeat may survive: 08 connection, 25 transaction state, 53 resources, 55 locks, 57 intervention,
# 58 system, XX internal. The others (22 data, 23 integrity, 42 syntax …) it cannot.
_PASSING = ("08", "25", "53", "55", "57", "58", "XX")


def classify(error: BaseException) -> Fault | None:
    """The fault an exception of the store stands for; ``None`` when it is not the store's."""
    match error:
        case CorruptRow():
            return Fault.PERMANENT
        case LeaseLost():
            return Fault.CONFLICT
        case asyncpg.InvalidCachedStatementError():
            # the schema was migrated under a prepared statement, which is forgotten now
            return Fault.TRANSIENT
        case asyncpg.PostgresError():
            return _of_state(getattr(error, "sqlstate", None))
        case asyncpg.InterfaceError():
            # the driver refuses what it was given with a ValueError: a repeat gives it the same. Else the connection is gone.
            return Fault.PERMANENT if isinstance(error, ValueError) else Fault.TRANSIENT
        case asyncpg.InternalClientError() | OSError():  # TimeoutError and ConnectionError are OSErrors
            return Fault.TRANSIENT
        case _:
            return None


def _of_state(sqlstate: str | None) -> Fault:
    if sqlstate is None or sqlstate.startswith(_PASSING):
        return Fault.TRANSIENT
    return Fault.CONFLICT if sqlstate in _CONFLICTS else Fault.PERMANENT
