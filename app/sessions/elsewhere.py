"""``POST /chat/{id}/answers``: answers from another app, a webhook, an approver. The same router; the server itself goes on."""

from collections.abc import Sequence
from typing import Any

from app.domain.answers import Answer
from app.domain.continuation import CONTINUATION, Posted, progress
from app.errors import Code, ServiceError
from app.sessions.answer_facts import facts
from app.sessions.continuing import check
from app.sessions.faults import as_service_error
from app.sessions.submit import Submitter
from app.store import sessions
from app.store.transaction import Store


class Elsewhere:
    def __init__(self, store: Store, submitter: Submitter) -> None:
        self._store = store
        self._submitter = submitter

    async def answer(self, owner: str, chat_id: str, answers: Sequence[Answer]) -> dict[str, Any]:
        """``{outcomes: [{toolCallId, outcome, continuation?}]}``. Raises the same typed errors as ``POST /chat``, and
        ``state_session_not_found``."""
        try:
            async with self._store.transaction() as tx:
                session = await sessions.lock(tx, owner, chat_id)
                if session is None:
                    raise ServiceError(Code.STATE_SESSION_NOT_FOUND)
                seen = await facts(tx, session.id, answers)
        except Exception as error:
            raise as_service_error(error, committed=False) from error
        submitted = await self._submitter.submit_all(session.id, seen)
        check(submitted)
        outcomes: list[dict[str, Any]] = []
        for each in submitted:
            item: dict[str, Any] = {"toolCallId": each.answer.call_id, "outcome": str(each.outcome)}
            if each.batch is not None:
                continuation, _ = CONTINUATION[progress(each.batch.view), Posted.AT_BATCH]
                item["continuation"] = str(continuation)
            outcomes.append(item)
        return {"outcomes": outcomes}
