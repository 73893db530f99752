"""What a run may become next.

A missing pair is an illegal transition; absence is meaningful here, so the test lists the legal pairs by hand. The store's guards
(``… where state in LEAVES[event]``) and the CHECK that ties ``settled_at`` to the settled states follow from this table.
"""

from enum import StrEnum


class RunState(StrEnum):
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"


class RunEvent(StrEnum):
    SUSPEND = "suspend"
    """Nothing of the tree executes and some call is pending."""
    CLAIM = "claim"
    """The last pending call of a suspended tree was answered, or a running run whose lease lapsed is taken over."""
    COMPLETE = "complete"
    FAIL = "fail"
    STOP = "stop"
    SUPERSEDE = "supersede"
    """A new user message, an edit or a regeneration took the run's place."""


LIVE = frozenset({RunState.RUNNING, RunState.SUSPENDED})
SETTLED = frozenset(RunState) - LIVE

# fmt: off
NEXT_STATE: dict[tuple[RunState, RunEvent], RunState] = {
    (RunState.RUNNING,   RunEvent.SUSPEND):   RunState.SUSPENDED,
    (RunState.RUNNING,   RunEvent.CLAIM):     RunState.RUNNING,
    (RunState.RUNNING,   RunEvent.COMPLETE):  RunState.COMPLETED,
    (RunState.RUNNING,   RunEvent.FAIL):      RunState.FAILED,
    (RunState.RUNNING,   RunEvent.STOP):      RunState.STOPPED,
    (RunState.RUNNING,   RunEvent.SUPERSEDE): RunState.SUPERSEDED,
    (RunState.SUSPENDED, RunEvent.CLAIM):     RunState.RUNNING,
    (RunState.SUSPENDED, RunEvent.FAIL):      RunState.FAILED,
    (RunState.SUSPENDED, RunEvent.STOP):      RunState.STOPPED,
    (RunState.SUSPENDED, RunEvent.SUPERSEDE): RunState.SUPERSEDED,
}
# fmt: on


def leaves(event: RunEvent) -> frozenset[RunState]:
    """The states an event may leave from: the guard of its update."""
    return frozenset(state for state, happened in NEXT_STATE if happened is event)
