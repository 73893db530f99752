"""How a run begins: the user message, the run and its empty assistant message, in the transaction of the path that begins it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.domain.turn import user_history
from app.store import history, messages, runs, sessions
from app.store.messages import Message
from app.store.sessions import Session
from app.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class Begin:
    """``lease_owner`` is ``None`` when this replica has no room: the run waits unclaimed for a slot anywhere."""

    run_id: UUID
    message_id: str
    lease_owner: str | None
    lease_s: float
    request: Mapping[str, Any]
    headers: Mapping[str, str]


async def begin(
    tx: Tx,
    session: Session,
    how: Begin,
    *,
    user_id: str,
    parts: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, Any] | None,
    known: Message | None,
) -> None:
    """Appends the user message (or takes the ``known`` one again, with the parts it has now) and starts its run."""
    if known is None:
        position = await sessions.take_positions(tx, session.id, 1)
        await messages.insert(
            tx,
            session.id,
            position,
            message_id=user_id,
            role="user",
            run_id=how.run_id,
            parts=parts,
            metadata=metadata,
        )
    else:
        await messages.cut_after(tx, session.id, known.position)
        await history.cut_after(tx, session.id, known.position)
        await messages.begin_again(tx, session.id, known.position, run_id=how.run_id, parts=parts)
    await history.append(tx, session.id, how.run_id, 0, [user_history(parts)], child=False)
    position = await sessions.take_positions(tx, session.id, 1)
    await messages.insert(
        tx, session.id, position, message_id=how.message_id, role="assistant", run_id=how.run_id, parts=[]
    )
    await runs.insert_root(
        tx,
        run_id=how.run_id,
        session_id=session.id,
        agent=session.agent,
        input_message=user_id,
        message=how.message_id,
        request=how.request,
        headers=how.headers,
        lease_owner=how.lease_owner,
        lease_s=how.lease_s,
    )
    await sessions.mark_cut(tx, session.id, None)
