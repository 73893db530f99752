"""The life of a call: one row, one state machine, from its step's commit to the end of its retention.

::

    server     ready ─begin─▶ started ─settle─▶ settled
                                      ─ask─▶ pending           (a tool that asks while it runs: a client or approval call now)
    subagent                  started ─settle─▶ settled        (its child run exists from the same commit on)
    client     pending ─answer─▶ answered ─settle─▶ settled    (settled at the drain)
    approval   pending ─answer─▶ answered ─begin─▶ started ─settle─▶ settled     (approved)
                                          ─settle─▶ settled                       (denied)

Any state that is not ``settled`` may be closed (``CLOSE``): the server gives the call its one result because its run ends.
``drained`` is a mark beside the state: the run went on with the call. A drained call is its own completed tombstone.
"""

from enum import StrEnum


class CallKind(StrEnum):
    SERVER = "server"
    CLIENT = "client"
    APPROVAL = "approval"
    SUBAGENT = "subagent"


class CallState(StrEnum):
    READY = "ready"
    PENDING = "pending"
    ANSWERED = "answered"
    STARTED = "started"
    SETTLED = "settled"


class CallEvent(StrEnum):
    ANSWER = "answer"
    BEGIN = "begin"
    ASK = "ask"
    SETTLE = "settle"
    CLOSE = "close"


class Outcome(StrEnum):
    """What became of a call, as the model is told it."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    ABANDONED = "abandoned"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    """The server died while the tool ran: nobody knows whether it took effect, and it is not run again."""


class CloseCode(StrEnum):
    """Why the server itself gave a call its result; the ``errorCode`` of the row."""

    RUN_STOPPED = "run_stopped"
    ABANDONED = "client_tool_abandoned"
    TIMEOUT = "client_tool_timeout"
    RUN_FAILED = "run_failed"
    OUTCOME_UNKNOWN = "outcome_unknown"


# What a closed call tells the model, and the text its part shows: one row for each code.
CLOSED: dict[CloseCode, tuple[Outcome, str]] = {
    CloseCode.RUN_STOPPED: (Outcome.STOPPED, "Stopped before it finished."),
    CloseCode.ABANDONED: (Outcome.ABANDONED, "Not answered: the conversation went on without it."),
    CloseCode.TIMEOUT: (Outcome.TIMEOUT, "Not answered in time."),
    CloseCode.RUN_FAILED: (Outcome.ERROR, "Not finished: the run failed."),
    CloseCode.OUTCOME_UNKNOWN: (Outcome.UNKNOWN, "Interrupted: whether it took effect is not known."),
}

ANSWERABLE = frozenset({CallKind.CLIENT, CallKind.APPROVAL})

ASKS = frozenset({CallKind.SERVER})
"""The kinds whose tools may ask while they run, and so become answerable. What was answered once is not asked again."""

_FIRST: dict[CallKind, CallState] = {
    CallKind.SERVER: CallState.READY,
    CallKind.SUBAGENT: CallState.STARTED,
    CallKind.CLIENT: CallState.PENDING,
    CallKind.APPROVAL: CallState.PENDING,
}

# fmt: off
NEXT_STATE: dict[tuple[CallState, CallEvent], CallState] = {
    (CallState.READY,    CallEvent.BEGIN):  CallState.STARTED,
    (CallState.READY,    CallEvent.SETTLE): CallState.SETTLED,   # refused input, unknown tool
    (CallState.READY,    CallEvent.CLOSE):  CallState.SETTLED,
    (CallState.PENDING,  CallEvent.ANSWER): CallState.ANSWERED,
    (CallState.PENDING,  CallEvent.CLOSE):  CallState.SETTLED,
    (CallState.ANSWERED, CallEvent.BEGIN):  CallState.STARTED,
    (CallState.ANSWERED, CallEvent.SETTLE): CallState.SETTLED,
    (CallState.ANSWERED, CallEvent.CLOSE):  CallState.SETTLED,
    (CallState.STARTED,  CallEvent.ASK):    CallState.PENDING,   # only of kind server, which it is no more
    (CallState.STARTED,  CallEvent.SETTLE): CallState.SETTLED,
    (CallState.STARTED,  CallEvent.CLOSE):  CallState.SETTLED,
}
# fmt: on


def first_state(kind: CallKind) -> CallState:
    """The state a call of this kind is committed in."""
    return _FIRST[kind]


def leaves(event: CallEvent) -> frozenset[CallState]:
    """The states an event may leave from: the guard of its update."""
    return frozenset(state for state, happened in NEXT_STATE if happened is event)
