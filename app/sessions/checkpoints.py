"""The named points of a run at which a test lets its process die: on either side of every commit of its owner.

``before-result``: its writes are made and not committed; ``after-result``: they are committed, and nobody has been told. The names
are those of ``Commit``; ``after-claim`` is the owner's first moment. In service a checkpoint does nothing.
"""

import os
import signal
from collections.abc import Callable
from enum import StrEnum

Checkpoint = Callable[[str], None]


class Commit(StrEnum):
    """What an owner commits."""

    CLAIM = "claim"
    RESPONSE = "response"
    COMPLETION = "completion"
    BEGIN = "begin"
    ASK = "ask"
    RESULT = "result"
    CHILD = "child"
    SUSPENSION = "suspension"
    DRAIN = "drain"
    SETTLEMENT = "settlement"


def passes(_: str) -> None:
    """The checkpoint of a service."""


def dies_at(point: str) -> Checkpoint:
    """A checkpoint at which this process is gone at once, as by a power cut: nothing is cleaned up, nobody is told.

    ``point``: ``before-result``, or ``before-result:2`` for the second time it is passed. Raises ``ValueError`` for an unknown one."""
    name, _, nth = point.partition(":")
    Commit(name.partition("-")[2])
    left = int(nth or 1)

    def checkpoint(passed: str) -> None:
        nonlocal left
        if passed == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return checkpoint
