"""A lapsed run is taken over before anything is decided on its session."""

from app.errors import Code, ServiceError
from app.log import cause_chain, get_logger
from app.sessions.admission import Runtime
from app.sessions.leases import Claim, Leases
from app.store import runs, sessions
from app.store.transaction import Store

log = get_logger(__name__)


async def reconcile(store: Store, leases: Leases, runtime: Runtime, owner: str, chat_id: str) -> None:
    """Takes over the session's live run when its lease has lapsed. A failure here is 500, never 503."""
    try:
        claimed: Claim | None = None
        async with store.transaction() as tx:
            session = await sessions.lock(tx, owner, chat_id)
            run = await runs.current(tx, session.id) if session is not None else None
            if session is not None and run is not None and run.lapsed:
                claimed = await leases.claim_in(tx, session.id, run.id)
        if claimed is not None:
            leases.say_claimed(claimed)
            runtime.wake(claimed.run_id, claimed.epoch)
    except Exception as error:
        log.error(
            "handleChatStream.reconcileSession: reconcile failed (permanent)",
            code=str(Code.FRAMEWORK_INTERNAL_ERROR),
            causes=cause_chain(error),
        )
        failure = ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, "reconcile failed", permanent=True)
        failure.logged = True
        raise failure from error
