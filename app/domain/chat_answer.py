"""Which answer does a request that carries answers get? (contract: the response, by the first row that applies)

Decided from the outcomes of its submits alone, after the last one. Two axes: what was accepted, and the worst trouble. When
nothing was accepted, ``REJECTION_ORDER`` names the error.
"""

from collections.abc import Sequence
from enum import StrEnum

from app.domain.answers import Outcome
from app.domain.decision import Table


class Accepted(StrEnum):
    STORED = "stored"
    """This request stored at least one answer."""
    COMPLETED = "completed"
    """None was stored, but at least one was stored before."""
    NONE = "none"


class Trouble(StrEnum):
    """The worst of the outcomes; the first that occurs, in this order."""

    REFUSED = "refused"
    """Wrong as sent."""
    FAILED = "failed"
    """A transient fault."""
    MISDIRECTED = "misdirected"
    """Stale or malformed, for a call that is still pending: its user believes that it was answered."""
    REJECTED = "rejected"
    """For a call that is not pending: nobody waits for it."""
    CLEAN = "clean"


class ChatAnswer(StrEnum):
    REFUSAL = "refusal"
    """The first refusal, as itself."""
    RETRY = "retry"
    """503: nothing is stored, a re-send is safe."""
    NOT_STORED = "not_stored"
    """Case C: 409 ``answer_not_stored`` with the calls that still wait."""
    REJECTED = "rejected"
    """400 or 409: see ``REJECTION_ORDER``."""
    CONTINUATION = "continuation"
    """200: see ``continuation``."""
    IMPOSSIBLE = "impossible"


# fmt: off
CHAT_ANSWER: Table[ChatAnswer] = Table("chat answer", {"trouble": Trouble, "accepted": Accepted}, {
    (Trouble.REFUSED,     Accepted.STORED):    ChatAnswer.REFUSAL,
    (Trouble.REFUSED,     Accepted.COMPLETED): ChatAnswer.REFUSAL,
    (Trouble.REFUSED,     Accepted.NONE):      ChatAnswer.REFUSAL,
    (Trouble.FAILED,      Accepted.STORED):    ChatAnswer.NOT_STORED,
    (Trouble.FAILED,      Accepted.COMPLETED): ChatAnswer.RETRY,
    (Trouble.FAILED,      Accepted.NONE):      ChatAnswer.RETRY,
    (Trouble.MISDIRECTED, Accepted.STORED):    ChatAnswer.NOT_STORED,
    (Trouble.MISDIRECTED, Accepted.COMPLETED): ChatAnswer.NOT_STORED,
    (Trouble.MISDIRECTED, Accepted.NONE):      ChatAnswer.REJECTED,
    (Trouble.REJECTED,    Accepted.STORED):    ChatAnswer.CONTINUATION,
    (Trouble.REJECTED,    Accepted.COMPLETED): ChatAnswer.CONTINUATION,
    (Trouble.REJECTED,    Accepted.NONE):      ChatAnswer.REJECTED,
    (Trouble.CLEAN,       Accepted.STORED):    ChatAnswer.CONTINUATION,
    (Trouble.CLEAN,       Accepted.COMPLETED): ChatAnswer.CONTINUATION,
    (Trouble.CLEAN,       Accepted.NONE):      ChatAnswer.IMPOSSIBLE,    # a request on this path has an answer
})
# fmt: on

# Nothing was accepted: the outcome that names the error, the first that occurs, in this order.
REJECTION_ORDER = (
    Outcome.MALFORMED_APPROVAL_ID,
    Outcome.RUN_STOPPED,
    Outcome.STALE_RUN,
    Outcome.UNKNOWN_TOOL_CALL,
)


def accepted(outcomes: Sequence[Outcome]) -> Accepted:
    if Outcome.STORED in outcomes:
        return Accepted.STORED
    return Accepted.COMPLETED if Outcome.ALREADY_COMPLETED in outcomes else Accepted.NONE


def trouble(outcomes: Sequence[tuple[Outcome, bool]]) -> Trouble:
    """Each outcome comes with whether its call is still pending."""
    kinds = {outcome for outcome, _ in outcomes}
    if Outcome.REFUSED in kinds:
        return Trouble.REFUSED
    if Outcome.FAILED in kinds:
        return Trouble.FAILED
    rejected = [pending for outcome, pending in outcomes if outcome in REJECTION_ORDER]
    if any(rejected):
        return Trouble.MISDIRECTED
    return Trouble.REJECTED if rejected else Trouble.CLEAN


def first_rejection(outcomes: Sequence[Outcome]) -> Outcome:
    """The rejection that names the error of a request none of whose answers was accepted."""
    return next(outcome for outcome in REJECTION_ORDER if outcome in outcomes)
