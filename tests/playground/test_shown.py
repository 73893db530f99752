"""What tools show beside their results, on the page: sources are links, data can be opened, nothing else is trusted."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.replica import Replica
from tests.playground.browser import Browser
from tests.playground.conftest import opened

pytestmark = pytest.mark.timeout(120)

SHOWN = [
    {"url": "https://a.example/report", "title": "A report"},
    {"url": "javascript:alert(1)", "title": "No link"},
    {"document": "A paper", "media_type": "application/pdf"},
    {"data": "chart", "value": {"bars": [1, 2]}, "id": "c"},
    {"data": "chart", "value": {"bars": [3, 4]}, "id": "c"},
]


@pytest.fixture
def shown(browser: Browser, database_url: str, tmp_path: Path) -> Iterator[Browser]:
    replica = Replica("showing", tmp_path, database_url, agents="tests.conformance.agents:AGENTS")
    asyncio.run(replica.start())
    with opened(browser, replica, tmp_path, width=1200, dark=False) as page:
        yield page
    replica.kill()


def test_sources_and_data_are_seen_live_and_after_a_reload(shown: Browser) -> None:
    steps = [{"calls": [{"tool": "show", "input": {"what": SHOWN}}]}, {"text": "That is all."}]
    shown.say("script:" + json.dumps(steps))
    for _ in ("live", "reloaded"):
        shown.sees("That is all.")
        for title in ("A report", "No link", "A paper"):
            shown.sees(title)
        assert shown.evaluate("[...document.querySelectorAll('.source a')].map(each => each.href)") == [
            "https://a.example/report"
        ]
        values = shown.evaluate(
            "[...document.querySelectorAll('details.shown pre')].map(each => each.textContent)"
        )
        assert [json.loads(value) for value in values] == [{"bars": [3, 4]}]
        shown.reload()
