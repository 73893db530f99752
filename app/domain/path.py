"""Which path does a ``POST /chat`` take? (contract: the path table of the one entry)

Two axes: what the request asks for (``Ask``), and how the session stands (``Standing``), read once under the session's lock.
"""

from enum import StrEnum

from app.domain.decision import Table
from app.domain.run_state import RunState


class Ask(StrEnum):
    ANSWERS = "answers"
    """The last message is an assistant's and holds at least one answer."""
    NOTHING = "nothing"
    """The last message is an assistant's and holds no answer."""
    NEW = "new"
    """A user message that the session does not hold."""
    SAME_LIVE = "same_live"
    """The user message that began the live run, as it is stored, sent again."""
    SAME_PAST = "same_past"
    """The user message of an earlier run, as it is stored, sent again."""
    AGAIN_LIVE = "again_live"
    """``regenerate-message`` for the user message that began the live run."""
    AGAIN_PAST = "again_past"
    """``regenerate-message`` for the user message of an earlier run."""
    EDIT = "edit"
    """A known user message, named by ``messageId``, with other parts than the stored ones."""


class Standing(StrEnum):
    NONE = "none"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SETTLED = "settled"


class Path(StrEnum):
    SUBMIT = "submit"
    """Submit every answer, then decide (path 3)."""
    NOT_FOUND = "not_found"
    BUSY = "busy"
    CASE_B = "case_b"
    """A harmless step: nothing to do for this client."""
    FRESH = "fresh"
    """Path 1: create the session and start a run."""
    NEXT_TURN = "next_turn"
    """Path 2: append the message and start a run."""
    ABANDON = "abandon"
    """Path 4: close the suspended run, append the message, start a run."""
    ATTACH = "attach"
    """Path 5: replay the live run's message, then follow it."""
    RETRY = "retry"
    """Path 6: replay the stored message of that run. No model call."""
    REWIND = "rewind"
    """Close the live run, cut everything after the message, start a run."""
    IMPOSSIBLE = "impossible"
    """The facts contradict each other: a bug, logged as one."""


# fmt: off
PATH: Table[Path] = Table("path", {"ask": Ask, "session": Standing}, {
    (Ask.ANSWERS,    Standing.NONE):      Path.SUBMIT,      # every answer is unknown; no session is made
    (Ask.ANSWERS,    Standing.RUNNING):   Path.SUBMIT,
    (Ask.ANSWERS,    Standing.SUSPENDED): Path.SUBMIT,
    (Ask.ANSWERS,    Standing.SETTLED):   Path.SUBMIT,
    (Ask.NOTHING,    Standing.NONE):      Path.NOT_FOUND,
    (Ask.NOTHING,    Standing.RUNNING):   Path.BUSY,        # a case B would say that the turn is over
    (Ask.NOTHING,    Standing.SUSPENDED): Path.CASE_B,
    (Ask.NOTHING,    Standing.SETTLED):   Path.CASE_B,
    (Ask.NEW,        Standing.NONE):      Path.FRESH,
    (Ask.NEW,        Standing.RUNNING):   Path.BUSY,
    (Ask.NEW,        Standing.SUSPENDED): Path.ABANDON,
    (Ask.NEW,        Standing.SETTLED):   Path.NEXT_TURN,
    (Ask.SAME_LIVE,  Standing.NONE):      Path.IMPOSSIBLE,
    (Ask.SAME_LIVE,  Standing.RUNNING):   Path.ATTACH,      # a retried POST never makes a second turn
    (Ask.SAME_LIVE,  Standing.SUSPENDED): Path.RETRY,
    (Ask.SAME_LIVE,  Standing.SETTLED):   Path.IMPOSSIBLE,
    (Ask.SAME_PAST,  Standing.NONE):      Path.IMPOSSIBLE,
    (Ask.SAME_PAST,  Standing.RUNNING):   Path.BUSY,
    (Ask.SAME_PAST,  Standing.SUSPENDED): Path.RETRY,
    (Ask.SAME_PAST,  Standing.SETTLED):   Path.RETRY,
    (Ask.AGAIN_LIVE, Standing.NONE):      Path.IMPOSSIBLE,
    (Ask.AGAIN_LIVE, Standing.RUNNING):   Path.ATTACH,      # nor does a Retry button while the first runs
    (Ask.AGAIN_LIVE, Standing.SUSPENDED): Path.REWIND,
    (Ask.AGAIN_LIVE, Standing.SETTLED):   Path.IMPOSSIBLE,
    (Ask.AGAIN_PAST, Standing.NONE):      Path.IMPOSSIBLE,
    (Ask.AGAIN_PAST, Standing.RUNNING):   Path.BUSY,
    (Ask.AGAIN_PAST, Standing.SUSPENDED): Path.REWIND,
    (Ask.AGAIN_PAST, Standing.SETTLED):   Path.REWIND,
    (Ask.EDIT,       Standing.NONE):      Path.IMPOSSIBLE,
    (Ask.EDIT,       Standing.RUNNING):   Path.BUSY,
    (Ask.EDIT,       Standing.SUSPENDED): Path.REWIND,
    (Ask.EDIT,       Standing.SETTLED):   Path.REWIND,
})
# fmt: on

# With `on_busy = interrupt` the live run is closed first; then the row that applies to a settled session.
INTERRUPTIBLE = frozenset({Ask.NEW, Ask.SAME_PAST, Ask.AGAIN_PAST, Ask.EDIT})


def standing(state: RunState | None) -> Standing:
    """``state`` is the live run's, else the last run's; ``None`` when there is no session."""
    match state:
        case None:
            return Standing.NONE
        case RunState.RUNNING:
            return Standing.RUNNING
        case RunState.SUSPENDED:
            return Standing.SUSPENDED
        case _:
            return Standing.SETTLED


def ask_of_user_message(*, known: bool, live: bool, edited: bool, regenerate: bool) -> Ask:
    """``live``: the message's newest run is the live one. An edit wins over a regeneration: its parts are what the user wants."""
    if not known:
        return Ask.NEW
    if edited:
        return Ask.EDIT
    if regenerate:
        return Ask.AGAIN_LIVE if live else Ask.AGAIN_PAST
    return Ask.SAME_LIVE if live else Ask.SAME_PAST
