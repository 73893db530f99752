"""Which answer a request with answers gets, from the outcomes of its submits alone."""

from itertools import product

import pytest

from app.domain.answers import Outcome
from app.domain.chat_answer import (
    CHAT_ANSWER,
    REJECTION_ORDER,
    Accepted,
    ChatAnswer,
    Trouble,
    accepted,
    first_rejection,
    trouble,
)
from tests.domain.grid import grid, names

SPEC = grid("""
               stored         completed      none
  refused      refusal        refusal        refusal
  failed       not_stored     retry          retry
  misdirected  not_stored     not_stored     rejected
  rejected     continuation   continuation   rejected
  clean        continuation   continuation   impossible
""")


@pytest.mark.parametrize(("cell", "answer"), SPEC.items(), ids=names(SPEC))
def test_answer(cell: tuple[str, str], answer: str) -> None:
    assert CHAT_ANSWER[Trouble(cell[0]), Accepted(cell[1])] is ChatAnswer(answer)


def test_the_table_has_these_rows_and_no_others() -> None:
    rows = {(str(worst), str(good)): str(answer) for (worst, good), answer in CHAT_ANSWER.rows.items()}
    assert rows == SPEC


# --- classifiers --------------------------------------------------------------------------------------------------------

STORED, COMPLETED, FAILED, REFUSED = (
    Outcome.STORED,
    Outcome.ALREADY_COMPLETED,
    Outcome.FAILED,
    Outcome.REFUSED,
)
UNKNOWN, STOPPED, STALE, MALFORMED = (
    Outcome.UNKNOWN_TOOL_CALL,
    Outcome.RUN_STOPPED,
    Outcome.STALE_RUN,
    Outcome.MALFORMED_APPROVAL_ID,
)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([STORED], "stored"),
        ([COMPLETED, STORED], "stored"),
        ([COMPLETED], "completed"),
        ([FAILED, REFUSED, COMPLETED], "completed"),
        ([FAILED, REFUSED, UNKNOWN, STOPPED, STALE, MALFORMED], "none"),
        ([], "none"),
    ],
)
def test_what_was_accepted(outcomes: list[Outcome], expected: str) -> None:
    assert accepted(outcomes) is Accepted(expected)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([(STORED, False)], "clean"),
        ([(STORED, False), (COMPLETED, False)], "clean"),
        ([(UNKNOWN, False), (STORED, False)], "rejected"),
        ([(STOPPED, False)], "rejected"),
        ([(STALE, False)], "rejected"),
        ([(MALFORMED, False)], "rejected"),
        ([(STALE, True)], "misdirected"),
        ([(MALFORMED, True), (STORED, False)], "misdirected"),
        ([(UNKNOWN, False), (STALE, True)], "misdirected"),
        ([(FAILED, True), (STALE, True)], "failed"),
        ([(FAILED, True), (UNKNOWN, False)], "failed"),
        ([(STALE, True), (FAILED, True), (REFUSED, True)], "refused"),
        ([(REFUSED, True), (STORED, False)], "refused"),
    ],
)
def test_the_worst_of_the_outcomes(outcomes: list[tuple[Outcome, bool]], expected: str) -> None:
    assert trouble(outcomes) is Trouble(expected)


def test_a_rejection_is_named_in_this_order() -> None:
    assert REJECTION_ORDER == (MALFORMED, STOPPED, STALE, UNKNOWN)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([UNKNOWN], UNKNOWN),
        ([UNKNOWN, STALE], STALE),
        ([UNKNOWN, STALE, STOPPED], STOPPED),
        ([STALE, STOPPED], STOPPED),
        ([UNKNOWN, STALE, STOPPED, MALFORMED], MALFORMED),
    ],
)
def test_the_rejection_that_names_the_error_is_the_first_in_order_not_in_the_request(
    outcomes: list[Outcome], expected: Outcome
) -> None:
    assert first_rejection(outcomes) is expected


# --- the whole of it: the response table, row by row, for every pair of outcomes -------------------------------------------

EACH = [
    (STORED, False),
    (COMPLETED, False),
    (UNKNOWN, False),
    (STOPPED, False),
    (STALE, False),
    (STALE, True),
    (MALFORMED, False),
    (MALFORMED, True),
    (REFUSED, True),
    (FAILED, True),
]


def as_the_rules_say_it(outcomes: tuple[tuple[Outcome, bool], ...]) -> str:
    """The response table read aloud: the first row that applies."""
    kinds = {outcome for outcome, _ in outcomes}
    still_pending = any(pending and outcome in (STALE, MALFORMED) for outcome, pending in outcomes)
    if REFUSED in kinds:
        return "refusal"
    if STORED not in kinds and FAILED in kinds:
        return "retry"
    if STORED in kinds and FAILED in kinds:
        return "not_stored"
    if kinds & {STORED, COMPLETED} and still_pending:
        return "not_stored"
    if not kinds & {STORED, COMPLETED}:
        return "rejected"
    return "continuation"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_table_says_what_the_rules_say_for_every_combination_of_outcomes(count: int) -> None:
    for outcomes in product(EACH, repeat=count):
        decided = CHAT_ANSWER[trouble(outcomes), accepted([outcome for outcome, _ in outcomes])]
        assert (outcomes, str(decided)) == (outcomes, as_the_rules_say_it(outcomes))
