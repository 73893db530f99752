"""Which path a ``POST /chat`` takes: the rows as the rules say them, typed by hand."""

import pytest

from app.domain.path import INTERRUPTIBLE, PATH, Ask, Path, Standing, ask_of_user_message, standing
from app.domain.run_state import RunState
from tests.domain.grid import grid, names

SPEC = grid("""
              none         running   suspended   settled
  answers     submit       submit    submit      submit
  nothing     not_found    busy      case_b      case_b
  new         fresh        busy      abandon     next_turn
  same_live   impossible   attach    retry       impossible
  same_past   impossible   busy      retry       retry
  again_live  impossible   attach    rewind      impossible
  again_past  impossible   busy      rewind      rewind
  edit        impossible   busy      rewind      rewind
""")


@pytest.mark.parametrize(("cell", "path"), SPEC.items(), ids=names(SPEC))
def test_path(cell: tuple[str, str], path: str) -> None:
    assert PATH[Ask(cell[0]), Standing(cell[1])] is Path(path)


def test_the_table_has_these_rows_and_no_others() -> None:
    assert {(str(ask), str(session)): str(path) for (ask, session), path in PATH.rows.items()} == SPEC


def test_no_path_is_named_that_nothing_leads_to() -> None:
    assert set(PATH.rows.values()) == set(Path)


def test_only_a_user_message_may_interrupt_and_never_a_repeat_of_the_live_one() -> None:
    assert {"new", "same_past", "again_past", "edit"} == INTERRUPTIBLE


def test_what_is_busy_for_a_user_message_is_what_an_interruption_may_close() -> None:
    busy = {str(ask) for (ask, _), path in PATH.rows.items() if path is Path.BUSY}
    assert busy - {"nothing"} == INTERRUPTIBLE


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, "none"),
        (RunState.RUNNING, "running"),
        (RunState.SUSPENDED, "suspended"),
        (RunState.COMPLETED, "settled"),
        (RunState.FAILED, "settled"),
        (RunState.STOPPED, "settled"),
        (RunState.SUPERSEDED, "settled"),
    ],
)
def test_a_session_stands_as_its_run_does(state: RunState | None, expected: str) -> None:
    assert standing(state) is Standing(expected)


@pytest.mark.parametrize(
    ("known", "live", "edited", "regenerate", "expected"),
    [
        (False, False, False, False, "new"),
        (False, False, False, True, "new"),  # whatever the trigger
        (True, True, False, False, "same_live"),
        (True, False, False, False, "same_past"),
        (True, True, False, True, "again_live"),
        (True, False, False, True, "again_past"),
        (True, True, True, False, "edit"),
        (True, False, True, False, "edit"),
        (True, True, True, True, "edit"),  # other parts are what the user wants, whatever the trigger
        (True, False, True, True, "edit"),
    ],
)
def test_what_a_user_message_asks_for(
    known: bool, live: bool, edited: bool, regenerate: bool, expected: str
) -> None:
    assert ask_of_user_message(known=known, live=live, edited=edited, regenerate=regenerate) is Ask(expected)
