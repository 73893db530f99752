"""How many runs may one owner have alive at once? Counted where a run begins, for all replicas together."""

from app.errors import Code, ServiceError
from app.store import sessions
from app.store.transaction import Tx

RETRY_S = 10.0


async def check_live_runs(tx: Tx, owner: str, limit: int | None) -> None:
    """Raises ``rate_limited`` when ``limit`` root runs of the owner run or wait; ``None`` is no limit.

    Takes the owner's own lock, to the end of the transaction: two that begin at once must see each other. It is always the last
    lock, after the session's, so nobody waits for it in a circle."""
    if limit is not None and await sessions.live_runs_of_owner(tx, owner) >= limit:
        raise ServiceError(Code.RATE_LIMITED, "the owner's live runs", retry_after_s=RETRY_S)
