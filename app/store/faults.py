"""What a fault of the store means for the request that met it.

``transient``: a repeat may succeed. ``permanent``: a repeat reads the same row. ``conflict``: somebody else was first. Everything
the database did not say is transient only when the connection itself failed.
"""

from enum import StrEnum

import asyncpg
from sqlalchemy.exc import DBAPIError, InterfaceError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout


class CorruptRow(Exception):
    """A stored row that cannot be read, or is of an unknown kind."""


class LeaseLost(Exception):
    """The run is no longer this owner's: another epoch, or no longer running."""


class Fault(StrEnum):
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    CONFLICT = "conflict"


_CONFLICTS = ("40001", "40P01", "23505")  # serialization failure, deadlock, unique violation


def classify(error: BaseException) -> Fault | None:
    """The fault an exception of the store stands for; ``None`` when it is not the store's."""
    if isinstance(error, CorruptRow):
        return Fault.PERMANENT
    if isinstance(error, LeaseLost):
        return Fault.CONFLICT
    if isinstance(error, PoolTimeout | ConnectionError | TimeoutError | OSError | asyncpg.InterfaceError):
        return Fault.TRANSIENT
    if isinstance(error, DBAPIError):
        state = sqlstate(error)
        if state in _CONFLICTS:
            return Fault.CONFLICT
        if isinstance(error, InterfaceError) or error.connection_invalidated or state is None:
            return Fault.TRANSIENT
        # Class 08 connection, 53 resources, 55 lock, 57 intervention, 58 system: a repeat may succeed. 22, 23, 42: it cannot.
        return Fault.TRANSIENT if state[:2] in ("08", "25", "53", "55", "57", "58", "XX") else Fault.PERMANENT
    return Fault.TRANSIENT if isinstance(error, SQLAlchemyError | asyncpg.PostgresError) else None


def sqlstate(error: DBAPIError) -> str | None:
    """The SQLSTATE the database gave, if it gave one."""
    return getattr(error.orig, "sqlstate", None) or getattr(
        getattr(error.orig, "__cause__", None), "sqlstate", None
    )


def violated(error: DBAPIError) -> str | None:
    """The name of the constraint that was violated, if that is what happened."""
    cause = getattr(error.orig, "__cause__", None)
    return getattr(cause, "constraint_name", None) or getattr(error.orig, "constraint_name", None)
