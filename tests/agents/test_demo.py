"""The rules of the demo, which read whatever anybody writes."""

import time

import pytest

from app.agent.model import ModelRequest, ModelResponse, TextDelta
from app.agent.present_turn import present_turn
from app.agents.demo import Reply, RuleModel, demo_rules
from app.domain.history import user_entry

RULES = ("mail", "weather in", "research", "slow", "fail")


@pytest.mark.parametrize("unit", ["a", "a.", "@a", " ,", "?", "? ", "and "])
@pytest.mark.parametrize("words", RULES)
def test_a_long_message_is_read_in_no_time(words: str, unit: str):
    text = f"{words} x{unit * (1_000_000 // len(unit))}x"
    turn = present_turn([user_entry([{"type": "text", "text": text}])])
    began = time.process_time()
    assert demo_rules(turn).calls
    assert time.process_time() - began < 5, "the replica does nothing else meanwhile"


@pytest.mark.parametrize("text", ["", " ", "a", " a  b\n", "\n\na b", "a" + " " * 200_000])
async def test_what_leaves_word_by_word_is_the_reply(text: str):
    model = RuleModel(lambda _turn: Reply(text, ()), delay_s=0)
    events = [event async for event in model.step(ModelRequest("", []))]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    last = events[-1]
    assert isinstance(last, ModelResponse)
    assert last.parts[0]["text"] == text
