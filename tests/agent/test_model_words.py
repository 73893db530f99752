"""A call's input as a model writes it: what is read is what was written, or it stays text and is refused."""

from typing import Any

import pytest

from app.agent.model_words import read_input
from app.agent.tools import InvalidInput, tool


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"n": 9007199254740993}', {"n": 2**53 + 1}),
        ('{"n": 18446744073709551615}', {"n": 2**64 - 1}),
        ({"n": -(2**63)}, {"n": -(2**63)}),
        ('{"n": 1e22, "z": -0.0}', {"n": 1e22, "z": -0.0}),
        (r'{"s": "\ud83d"}', {"s": "\ufffd"}),
        ('{"__proto__": {"x": 1}}', {"__proto__": {"x": 1}}),
        ("", {}),
        ("null", {}),
        ('{"half', '{"half'),
    ],
)
def test_an_input_is_read_as_it_was_written(written: Any, read: Any):
    assert read_input(written) == read


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "-9223372036854775809", "1e400", "-Infinity", "NaN", "9" * 5000]
)
def test_a_tool_is_not_run_with_another_number_than_the_model_wrote(number: str):
    @tool
    def refund(order: int) -> str:
        """Give money back."""
        return str(order)

    written = f'{{"order": {number}}}'
    assert read_input(written) == written
    with pytest.raises(InvalidInput):
        refund.check(read_input(written))


def test_a_number_too_large_in_parsed_arguments_is_kept_as_text_too():
    assert read_input({"order": 2**64}) == '{"order": 18446744073709551616}'
