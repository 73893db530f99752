"""All SQL. Statements are named for intent; rows come in, domain values go out.

- ``sessions``, ``runs``, ``calls``, ``messages``, ``history``, ``frames``   the rows, a file a table
- ``framelog``     frames in motion: memory for readers here, batches to the log, a doorbell for the other replicas
- ``engine``, ``transaction``, ``statements``   the pool, one short transaction, what statements share
- ``faults``       what a fault means for the request that met it
- ``schema``, ``migrate``       the tables; their version
- ``embedded``, ``postmaster``  the default database

May import: errors, domain, settings, log, clock; only this room imports asyncpg and sqlalchemy. Statements are plain SQL with ``$1``
parameters, each under a sentence that says what it is for; SQLAlchemy describes the tables (``schema``) for the migrations and for
nothing else.

Invariants:

- Lock order: session, then run, then calls by id. Every transaction that changes a run's state, its calls or its messages takes the
  session row first (``sessions.lock``); frame batches and lease renewals take no session lock.
- Every write of a run's owner carries the root's epoch and applies only if it is still the row's (``runs``); zero rows is
  ``LeaseLost``, never a silent success.
- Times that decide something are the database's ``now()``.
- A statement sees one snapshot, taken before it waits for a lock: what is decided under a lock is read by a later statement.
- JSON payloads are ``json``, not ``jsonb``: escapes of NUL survive. They are never filtered in SQL; what is queried is a column.

Fails: ``faults.classify`` says of any exception whether it is transient, permanent or a lost race.
"""
