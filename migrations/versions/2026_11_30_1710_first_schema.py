"""The first schema: sessions, runs, messages, history, calls, frames.

Revision: f39f7f09078f, after . Migrations only add: old code must run on the new schema.
"""

import sqlalchemy as sa
from alembic import op

revision = "f39f7f09078f"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "frame",
        sa.Column("run_id", sa.UUID(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "seq", "epoch", name=op.f("frame_pkey")),
    )
    op.create_table(
        "session",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("cut_run", sa.UUID(), nullable=True),
        sa.Column("next_position", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("session_pkey")),
        sa.UniqueConstraint("owner", "chat_id", name="one_session_per_owner_and_chat"),
    )
    op.create_index("session_owner_updated_idx", "session", ["owner", "updated_at", "id"], unique=False)
    op.create_table(
        "history",
        sa.Column("session_id", sa.UUID(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.UUID(), nullable=False),
        sa.Column("child", sa.Boolean(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("cut_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("role in ('user', 'assistant', 'tool')", name=op.f("history_role_check")),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("history_session_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "position", name=op.f("history_pkey")),
    )
    op.create_index("history_run_idx", "history", ["run_id"], unique=False)
    op.create_table(
        "message",
        sa.Column("session_id", sa.UUID(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("run_id", sa.UUID(), nullable=True),
        sa.Column("parts", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("cut_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("role in ('user', 'assistant')", name=op.f("message_role_check")),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("message_session_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "position", name=op.f("message_pkey")),
    )
    op.create_index("message_run_idx", "message", ["run_id"], unique=False)
    op.create_index(
        "one_uncut_message_per_id",
        "message",
        ["session_id", "id"],
        unique=True,
        postgresql_where=sa.text("cut_at is null"),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("session_id", sa.UUID(), nullable=False),
        sa.Column("root_run", sa.UUID(), nullable=False),
        sa.Column("parent_run", sa.UUID(), nullable=True),
        sa.Column("parent_call", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("input_message", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("request", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("step", sa.Integer(), server_default="0", nullable=False),
        sa.Column("batch", sa.Integer(), server_default="1", nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("commits", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("stop_requested_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("frame_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("step_open", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("trim_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("trim_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("usage", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("settled_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state in ('completed', 'failed', 'stopped', 'superseded')) = (settled_at is not null)",
            name=op.f("run_settled_at_is_of_settled_states_check"),
        ),
        sa.CheckConstraint(
            "lease_until is null or state = 'running'", name=op.f("run_only_a_running_run_has_a_lease_check")
        ),
        sa.CheckConstraint(
            "state in ('completed', 'failed', 'running', 'stopped', 'superseded', 'suspended')",
            name=op.f("run_state_check"),
        ),
        sa.CheckConstraint(
            "(parent_run is null) = (id = root_run)", name=op.f("run_a_root_has_no_parent_check")
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("run_session_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("run_pkey")),
    )
    op.create_index(
        "one_live_root_run_per_session",
        "run",
        ["session_id"],
        unique=True,
        postgresql_where=sa.text("parent_run is null and state in ('running', 'suspended')"),
    )
    op.create_index(
        "run_lease_owner_idx",
        "run",
        ["lease_owner"],
        unique=False,
        postgresql_where=sa.text("lease_owner is not null"),
    )
    op.create_index("run_root_idx", "run", ["root_run"], unique=False)
    op.create_index("run_session_created_idx", "run", ["session_id", "created_at"], unique=False)
    op.create_index(
        "run_to_claim_idx",
        "run",
        ["lease_until"],
        unique=False,
        postgresql_where=sa.text("parent_run is null and state = 'running'"),
    )
    op.create_table(
        "call",
        sa.Column("session_id", sa.UUID(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.UUID(), nullable=False),
        sa.Column("root_run", sa.UUID(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("input", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=True),
        sa.Column("child_run", sa.UUID(), nullable=True),
        sa.Column("output_schema", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("deadline_s", sa.Double(), nullable=True),
        sa.Column("deadline_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("answer", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("answered_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("value", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("drained", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("settled_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "(kind = 'approval') = (approval_id is not null)", name=op.f("call_an_approval_has_its_id_check")
        ),
        sa.CheckConstraint(
            "(state = 'settled') = (outcome is not null)",
            name=op.f("call_a_settled_call_has_an_outcome_check"),
        ),
        sa.CheckConstraint(
            "kind in ('approval', 'client', 'server', 'subagent')", name=op.f("call_kind_check")
        ),
        sa.CheckConstraint(
            "outcome in ('abandoned', 'denied', 'error', 'ok', 'stopped', 'timeout', 'unknown')",
            name=op.f("call_outcome_check"),
        ),
        sa.CheckConstraint(
            "state <> 'answered' or answered_at is not null",
            name=op.f("call_an_answered_call_has_its_answer_check"),
        ),
        sa.CheckConstraint(
            "state in ('answered', 'pending', 'ready', 'settled', 'started')", name=op.f("call_state_check")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("call_run_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name=op.f("call_session_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "call_id", name=op.f("call_pkey")),
    )
    op.create_index(
        "call_deadline_idx",
        "call",
        ["deadline_at"],
        unique=False,
        postgresql_where=sa.text("state = 'pending' and deadline_at is not null"),
    )
    op.create_index("call_root_idx", "call", ["root_run"], unique=False)
    op.create_index("call_run_idx", "call", ["run_id"], unique=False)
    op.create_index(
        "call_tombstone_idx",
        "call",
        ["settled_at"],
        unique=False,
        postgresql_where=sa.text("settled_at is not null"),
    )


def downgrade() -> None:
    op.drop_index("call_tombstone_idx", table_name="call", postgresql_where=sa.text("settled_at is not null"))
    op.drop_index("call_run_idx", table_name="call")
    op.drop_index("call_root_idx", table_name="call")
    op.drop_index(
        "call_deadline_idx",
        table_name="call",
        postgresql_where=sa.text("state = 'pending' and deadline_at is not null"),
    )
    op.drop_table("call")
    op.drop_index(
        "run_to_claim_idx",
        table_name="run",
        postgresql_where=sa.text("parent_run is null and state = 'running'"),
    )
    op.drop_index("run_session_created_idx", table_name="run")
    op.drop_index("run_root_idx", table_name="run")
    op.drop_index(
        "run_lease_owner_idx", table_name="run", postgresql_where=sa.text("lease_owner is not null")
    )
    op.drop_index(
        "one_live_root_run_per_session",
        table_name="run",
        postgresql_where=sa.text("parent_run is null and state in ('running', 'suspended')"),
    )
    op.drop_table("run")
    op.drop_index(
        "one_uncut_message_per_id", table_name="message", postgresql_where=sa.text("cut_at is null")
    )
    op.drop_index("message_run_idx", table_name="message")
    op.drop_table("message")
    op.drop_index("history_run_idx", table_name="history")
    op.drop_table("history")
    op.drop_index("session_owner_updated_idx", table_name="session")
    op.drop_table("session")
    op.drop_table("frame")
