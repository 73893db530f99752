"""What every fault of the store means for the request that met it."""

import asyncio

import asyncpg
import pytest

from app.store.faults import CorruptRow, Fault, LeaseLost, classify
from app.store.transaction import Store

TRANSIENT, PERMANENT, CONFLICT = Fault.TRANSIENT, Fault.PERMANENT, Fault.CONFLICT

# fmt: off
FAULTS = [
    # the connection
    (asyncpg.ConnectionDoesNotExistError("closed in the middle of operation"), TRANSIENT),
    (asyncpg.ConnectionFailureError("x"),            TRANSIENT),
    (asyncpg.InterfaceError("connection is closed"), TRANSIENT),
    (asyncpg.InternalClientError("unexpected state"), TRANSIENT),
    (ConnectionResetError(),                         TRANSIENT),
    (ConnectionRefusedError(),                       TRANSIENT),
    (FileNotFoundError("no such socket"),            TRANSIENT),
    (TimeoutError(),                                 TRANSIENT),
    # the server
    (asyncpg.AdminShutdownError("x"),                TRANSIENT),
    (asyncpg.CrashShutdownError("x"),                TRANSIENT),
    (asyncpg.CannotConnectNowError("x"),             TRANSIENT),
    (asyncpg.TooManyConnectionsError("x"),           TRANSIENT),
    (asyncpg.OutOfMemoryError("x"),                  TRANSIENT),
    (asyncpg.DiskFullError("x"),                     TRANSIENT),
    (asyncpg.LockNotAvailableError("x"),             TRANSIENT),
    (asyncpg.QueryCanceledError("statement timeout"), TRANSIENT),
    (asyncpg.IdleInTransactionSessionTimeoutError("x"), TRANSIENT),
    (asyncpg.ReadOnlySQLTransactionError("x"),       TRANSIENT),
    (asyncpg.PostgresIOError("x"),                   TRANSIENT),
    (asyncpg.InternalServerError("x"),               TRANSIENT),
    (asyncpg.InvalidCachedStatementError("x"),       TRANSIENT),
    # somebody else was first
    (asyncpg.UniqueViolationError("x"),              CONFLICT),
    (asyncpg.SerializationError("x"),                CONFLICT),
    (asyncpg.DeadlockDetectedError("x"),             CONFLICT),
    (LeaseLost("x"),                                 CONFLICT),
    # a repeat meets the same
    (CorruptRow("x"),                                PERMANENT),
    (asyncpg.CheckViolationError("x"),               PERMANENT),
    (asyncpg.ForeignKeyViolationError("x"),          PERMANENT),
    (asyncpg.NotNullViolationError("x"),             PERMANENT),
    (asyncpg.DataError("x"),                         PERMANENT),
    (asyncpg.CharacterNotInRepertoireError("x"),     PERMANENT),
    (asyncpg.UndefinedTableError("x"),               PERMANENT),
    (asyncpg.InvalidPasswordError("x"),              PERMANENT),
    (asyncpg.InvalidCatalogNameError("x"),           PERMANENT),
    (asyncpg.FeatureNotSupportedError("x"),          PERMANENT),
    (asyncpg.ClientConfigurationError("x"),          PERMANENT),
    # not the store's
    (ValueError("x"),                                None),
    (LookupError("x"),                               None),
    (RuntimeError("x"),                              None),
    (asyncio.CancelledError(),                       None),
]
# fmt: on


@pytest.mark.parametrize(("error", "fault"), FAULTS, ids=lambda value: type(value).__name__)
def test_classify(error, fault):
    assert classify(error) is fault


async def test_what_the_driver_refuses_to_send_is_permanent(store: Store):
    async def send(query, value):
        async with store.transaction() as tx:
            await tx.fetchval(query, value)

    for query, value in (
        ("select $1::int", "text"),
        ("select $1::int", 2**40),
        ("select $1::json", {"an": object()}),
    ):
        with pytest.raises(asyncpg.DataError) as raised:
            await send(query, value)
        assert classify(raised.value) is Fault.PERMANENT


async def test_a_prepared_statement_whose_tables_were_migrated_is_repeated_with_success(store: Store, bare):
    await bare.execute("create table kept (a int)")

    async def read():
        async with store.transaction() as tx:
            return await tx.fetch("select * from kept")

    await read()
    await bare.execute("alter table kept add column b int")
    with pytest.raises(asyncpg.InvalidCachedStatementError) as raised:
        await read()
    assert classify(raised.value) is Fault.TRANSIENT
    assert await read() == []
