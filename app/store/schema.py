"""The tables, their constraints and the invariants these hold.

Enumerated columns are text with a CHECK built from the domain's enum, so that the two cannot differ. Names of constraints follow one
convention; partial unique indexes are named by the rule they keep, because that name comes back in errors.
"""

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, MetaData, Table, text
from sqlalchemy.dialects.postgresql import UUID

from app.domain.call_state import CallKind, CallState, Outcome
from app.domain.run_state import SETTLED, RunState
from app.store.statements import one_of

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    }
)


def _one_of(column: str, members: type[StrEnum] | frozenset[RunState]) -> str:
    return f"{column} in ({one_of(members)})"


_TIME = sa.TIMESTAMP(timezone=True)
_JSON = sa.JSON(none_as_null=True)
_UUID = UUID(as_uuid=True)


def _session_key() -> Column[object]:
    return Column("session_id", _UUID, ForeignKey("session.id", ondelete="CASCADE"), nullable=False)


# One chat of one owner. ``chat_id`` is the client's; ``id`` is ours.
session = Table(
    "session",
    metadata,
    Column("id", _UUID, primary_key=True),
    Column("owner", sa.Text, nullable=False),
    Column("chat_id", sa.Text, nullable=False),
    Column("agent", sa.Text, nullable=False),
    Column(
        "cut_run", _UUID
    ),  # the last run, when a client may hold less of it than there is (snapshot and resume)
    Column("next_position", sa.BigInteger, nullable=False, server_default="1"),
    Column("created_at", _TIME, nullable=False, server_default=sa.func.now()),
    Column("updated_at", _TIME, nullable=False, server_default=sa.func.now()),
    sa.UniqueConstraint("owner", "chat_id", name="one_session_per_owner_and_chat"),
    Index("session_owner_updated_idx", "owner", "updated_at", "id"),
)

# One turn, or a child of one. The root's lease and epoch own the whole tree; a child has neither.
run = Table(
    "run",
    metadata,
    Column("id", _UUID, primary_key=True),
    _session_key(),
    Column("root_run", _UUID, nullable=False),
    Column("parent_run", _UUID),
    Column("parent_call", sa.Text),
    Column("agent", sa.Text, nullable=False),
    Column("state", sa.Text, nullable=False),
    Column("input_message", sa.Text),  # the user message that began it (roots)
    Column("message", sa.Text),  # the assistant message it writes (roots)
    Column("request", _JSON),  # the body's extra keys, handed to the agent (roots)
    Column("step", sa.Integer, nullable=False, server_default="0"),  # committed model responses
    Column(
        "batch", sa.Integer, nullable=False, server_default="1"
    ),  # the number new calls of the tree get (roots)
    Column("epoch", sa.Integer, nullable=False, server_default="0"),
    Column(
        "commits", sa.BigInteger, nullable=False, server_default="0"
    ),  # the owner's commits: tells a lost reply from a lost write
    Column("lease_owner", sa.Text),
    Column("lease_until", _TIME),
    Column("attempts", sa.Integer, nullable=False, server_default="0"),  # takeovers so far
    Column("stop_requested_at", _TIME),
    Column(
        "frame_seq", sa.BigInteger, nullable=False, server_default="0"
    ),  # the watermark: the last frame the message holds
    Column(
        "step_open", sa.Boolean, nullable=False, server_default=sa.false()
    ),  # whether a step is open at the watermark
    Column("trim_seq", sa.BigInteger, nullable=False, server_default="0"),
    Column("trim_at", _TIME),
    Column("error_code", sa.Text),
    Column("usage", _JSON),
    Column("headers", _JSON),  # of the request that began it, as the settings name them (roots)
    Column("created_at", _TIME, nullable=False, server_default=sa.func.now()),
    Column("settled_at", _TIME),
    CheckConstraint(_one_of("state", RunState), name="state"),
    CheckConstraint(
        f"({_one_of('state', SETTLED)}) = (settled_at is not null)", name="settled_at_is_of_settled_states"
    ),
    CheckConstraint("(parent_run is null) = (id = root_run)", name="a_root_has_no_parent"),
    CheckConstraint("lease_until is null or state = 'running'", name="only_a_running_run_has_a_lease"),
    Index(
        "one_live_root_run_per_session",
        "session_id",
        unique=True,
        postgresql_where=text("parent_run is null and state in ('running', 'suspended')"),
    ),
    Index("run_session_created_idx", "session_id", "created_at"),
    Index("run_root_idx", "root_run"),
    Index(
        "run_to_claim_idx", "lease_until", postgresql_where=text("parent_run is null and state = 'running'")
    ),
    Index("run_lease_owner_idx", "lease_owner", postgresql_where=text("lease_owner is not null")),
)

# What the user sees. A cut message stays as a row, out of every view, so that a late answer to it is stale and not a mystery.
message = Table(
    "message",
    metadata,
    _session_key(),
    Column("position", sa.BigInteger, nullable=False),
    Column("id", sa.Text, nullable=False),
    Column("role", sa.Text, nullable=False),
    Column(
        "run_id", _UUID
    ),  # a user message: the newest run it began; an assistant message: the run that wrote it
    Column("parts", _JSON, nullable=False),
    Column("metadata", _JSON),
    Column("cut_at", _TIME),
    Column("created_at", _TIME, nullable=False, server_default=sa.func.now()),
    sa.PrimaryKeyConstraint("session_id", "position"),
    CheckConstraint("role in ('user', 'assistant')", name="role"),
    Index(
        "one_uncut_message_per_id", "session_id", "id", unique=True, postgresql_where=text("cut_at is null")
    ),
    Index("message_run_idx", "run_id"),
)

# What the model is sent: neutral entries (domain/history.py), a root's and each child's of their own.
history = Table(
    "history",
    metadata,
    _session_key(),
    Column("position", sa.BigInteger, nullable=False),
    Column("run_id", _UUID, nullable=False),
    Column("child", sa.Boolean, nullable=False),
    Column("step", sa.Integer, nullable=False),
    Column("role", sa.Text, nullable=False),
    Column("body", _JSON, nullable=False),
    Column("cut_at", _TIME),
    sa.PrimaryKeyConstraint("session_id", "position"),
    CheckConstraint("role in ('user', 'assistant', 'tool')", name="role"),
    Index("history_run_idx", "run_id"),
)

# Pending calls, the ledger of tools and the completed tombstones: one table, one state machine (domain/call_state.py).
call = Table(
    "call",
    metadata,
    _session_key(),
    Column("call_id", sa.Text, nullable=False),
    Column("run_id", _UUID, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("root_run", _UUID, nullable=False),
    Column("step", sa.Integer, nullable=False),
    Column("ordinal", sa.Integer, nullable=False),  # its place in the model's response
    Column("batch", sa.Integer, nullable=False),
    Column("kind", sa.Text, nullable=False),
    Column("tool", sa.Text, nullable=False),
    Column("input", _JSON, nullable=False),
    Column("approval_id", sa.Text),
    Column("child_run", _UUID),
    Column("output_schema", _JSON),
    Column("deadline_s", sa.Double),
    Column("deadline_at", _TIME),  # set when the tree suspends
    Column("state", sa.Text, nullable=False),
    Column("answer", _JSON),
    Column("answered_at", _TIME),
    Column("outcome", sa.Text),
    Column("value", _JSON),
    Column("error_code", sa.Text),
    Column("drained", sa.Boolean, nullable=False, server_default=sa.false()),
    Column("settled_at", _TIME),
    Column("created_at", _TIME, nullable=False, server_default=sa.func.now()),
    sa.PrimaryKeyConstraint("session_id", "call_id"),
    CheckConstraint(_one_of("kind", CallKind), name="kind"),
    CheckConstraint(_one_of("state", CallState), name="state"),
    CheckConstraint(_one_of("outcome", Outcome), name="outcome"),
    CheckConstraint("(state = 'settled') = (outcome is not null)", name="a_settled_call_has_an_outcome"),
    CheckConstraint("(kind = 'approval') = (approval_id is not null)", name="an_approval_has_its_id"),
    CheckConstraint("state <> 'answered' or answered_at is not null", name="an_answered_call_has_its_answer"),
    Index("call_root_idx", "root_run"),
    Index("call_run_idx", "run_id"),
    Index(
        "call_deadline_idx",
        "deadline_at",
        postgresql_where=text("state = 'pending' and deadline_at is not null"),
    ),
    Index("call_tombstone_idx", "settled_at", postgresql_where=text("settled_at is not null")),
)

# The log of the running step: what a reader on another replica follows. No foreign key: a batch must not wait for the run's row.
frame = Table(
    "frame",
    metadata,
    Column("run_id", _UUID, nullable=False),
    Column("seq", sa.BigInteger, nullable=False),
    Column("epoch", sa.Integer, nullable=False),
    Column("data", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("run_id", "seq", "epoch"),
)
