"""The page in a real browser, against a real server process."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.replica import Replica
from tests.playground.browser import Browser

pytestmark = pytest.mark.timeout(120)

LONG = " ".join(f"word{number}" for number in range(30))


def told(text: str, **step: object) -> str:
    """A message that makes the agent say ``text``, piece by piece."""
    return "script:" + json.dumps([{"text": text, **step}])


SLOWLY = told(LONG, chunks=30, delay_ms=100)
LAST_ANSWER = ".message.assistant:last-child"
LAST_TEXT = f"{LAST_ANSWER} .prose:first-child"


def outbox(page: Browser, server: Replica) -> list[str]:
    """The kinds of what this page's chat has left in the outbox."""
    chat = page.text('[data-fact="session"]')
    lines = server.outbox.read_text().splitlines() if server.outbox.exists() else []
    return [line["kind"] for line in map(json.loads, lines) if line["sessionId"] == chat]


def test_a_turn_with_a_tool_on_the_server_streams_and_is_completed(page: Browser) -> None:
    page.click("What's the weather in Lisbon? A tool on the server")
    page.waits_for('[data-tool="get_weather"][data-state="output-available"]')
    page.sees("In Lisbon it is")
    page.waits_for_status("completed")
    page.sees("What's the weather in Lisbon?", within="#chats")
    page.reload()
    page.waits_for('[data-tool="get_weather"][data-state="output-available"]')
    page.sees("In Lisbon it is", count=1)


def test_reasoning_is_shown_apart_from_the_text(page: Browser) -> None:
    page.say(told("The text.", reasoning="The thought."))
    page.waits_for_status("completed")
    page.sees("Thoughts")
    assert "The thought." not in page.text(f"{LAST_ANSWER} .prose")


def test_a_browser_tool_is_answered_by_a_button(page: Browser) -> None:
    page.say("Where am I?")
    page.waits_for_status("waiting for you")
    page.click("Say Lisbon")
    page.sees("You are at 38.7223, -9.1393.")
    page.waits_for_status("completed")


def test_a_refused_browser_tool_is_a_failed_one(page: Browser) -> None:
    page.say("Where am I?")
    page.click("Refuse")
    page.waits_for('[data-tool="get_location"][data-state="output-error"]')
    page.waits_for_status("completed")


def test_an_option_is_picked_by_a_button(page: Browser) -> None:
    page.say("Let me pick a colour")
    page.click("green")
    page.sees("pick_option answered: green.")


def test_a_granted_approval_sends_exactly_one_mail(page: Browser, server: Replica) -> None:
    page.say("Send an email to ada@example.com")
    page.waits_for_status("waiting for you")
    assert outbox(page, server) == []
    page.click("Approve")
    page.sees("The mail to ada@example.com is sent.")
    page.waits_for_status("completed")
    assert outbox(page, server) == ["email"]


def test_a_denied_approval_sends_none_and_its_reason_is_told(page: Browser, server: Replica) -> None:
    page.say("Send an email to ada@example.com")
    page.fill("Reason (optional)", "not today")
    page.click("Deny")
    page.waits_for_status("completed")
    page.waits_for('[data-tool="send_email"][data-state="output-denied"]')
    page.sees("not today")
    assert outbox(page, server) == []


def test_an_approval_that_waits_over_a_reload_is_granted_once(page: Browser, server: Replica) -> None:
    page.say("Send an email to ada@example.com")
    page.waits_for_status("waiting for you")
    page.reload()
    page.waits_for_status("waiting for you")
    page.click("Approve")
    page.sees("The mail to ada@example.com is sent.")
    page.reload()
    page.sees("The mail to ada@example.com is sent.", count=1)
    assert outbox(page, server) == ["email"]


def test_a_question_and_an_approval_of_one_step_are_sent_together(page: Browser, server: Replica) -> None:
    mail = {"to": "ada@example.com", "subject": "Hello", "body": "…"}
    pick = {"question": "Which?", "options": ["red", "green"]}
    calls = [{"tool": "pick_option", "input": pick}, {"tool": "send_email", "input": mail}]
    page.say("script:" + json.dumps([{"calls": calls}]))
    page.waits_for_status("waiting for you")
    page.click("Approve")
    page.waits_for('[data-tool="send_email"][data-state="approval-responded"]')
    assert outbox(page, server) == []
    page.click("green")
    page.waits_for_status("completed")
    page.sees('"value":"green"')
    assert outbox(page, server) == ["email"]


def test_a_screen_reader_is_told_what_the_agent_waits_for(page: Browser) -> None:
    page.say("Where am I?")
    page.sees("The agent waits for you: get_location", within="[role=status]")
    page.click("Say Lisbon")
    page.sees("Status: completed", within="[role=status]")


def test_a_sub_agent_asks_publishes_and_sums_up(page: Browser, server: Replica) -> None:
    page.say("Research tea")
    page.sees("waits for you", within=".activity")
    page.fill("Your answer", "green tea")
    page.press("Enter")
    page.waits_for('[data-tool="publish_note"][data-state="approval-requested"]')
    page.click("Approve")
    page.waits_for('[data-tool="research"][data-state="output-available"]')
    page.waits_for_status("completed")
    assert outbox(page, server) == ["note"]


def test_a_tool_that_fails_says_so_and_the_turn_goes_on(page: Browser) -> None:
    page.say("Fail")
    page.waits_for('[data-tool="fail"][data-state="output-error"]')
    page.waits_for_status("completed")


def test_a_failed_run_is_a_typed_error_and_can_be_run_again(page: Browser) -> None:
    page.say(told("half of it", error="drop"))
    page.sees("provider_unavailable", within=".failure")
    page.click("Retry")
    page.sees("This run failed.")
    page.click("Run again")
    page.sees("provider_unavailable", within=".failure")


def test_a_reload_in_mid_stream_goes_on_to_the_end(page: Browser) -> None:
    page.say(SLOWLY)
    page.sees("word5", within=LAST_ANSWER)
    page.reload()
    page.waits_for_status("completed")
    assert page.text(LAST_TEXT) == LONG


async def test_a_server_that_dies_in_mid_stream_is_an_error_whose_retry_shows_the_truth(
    mortal_page: Browser, mortal: Replica
) -> None:
    page = mortal_page
    page.say(SLOWLY)
    page.sees("word5", within=LAST_ANSWER)
    mortal.kill()
    page.sees("connection_lost", within=".failure")
    page.click("Retry")  # nobody is there yet
    page.sees("connection_lost", within=".failure")
    await mortal.start()
    page.click("Retry")
    _retry_until_completed(page)
    assert page.text(LAST_TEXT) == LONG
    assert page.evaluate("document.querySelectorAll('.message.assistant').length") == 1


def _retry_until_completed(page: Browser) -> None:
    """Until the dead server's lease has lapsed, the stream of what it had not committed ends in one more error."""
    deadline = time.monotonic() + 40
    while True:
        try:
            page.waits_for_status("completed", timeout_s=2)
            return
        except AssertionError:
            assert time.monotonic() < deadline, "the run is not taken over"
            page.evaluate("document.querySelector('.failure button:enabled')?.click()")


async def test_a_message_that_never_arrived_is_sent_by_retry(mortal_page: Browser, mortal: Replica) -> None:
    page = mortal_page
    mortal.kill()
    page.say("Fail")
    page.sees("connection_lost", within=".failure")
    await mortal.start()
    page.click("Retry")
    page.waits_for('[data-tool="fail"][data-state="output-error"]')
    assert page.evaluate("document.querySelectorAll('.message.user').length") == 1


def test_stop_ends_the_run_and_keeps_what_was_said(page: Browser) -> None:
    page.say(SLOWLY)
    page.sees("word5", within=LAST_ANSWER)
    page.click("Stop")
    page.waits_for_status("stopped")
    said = page.text(LAST_TEXT)
    assert LONG.startswith(said)
    assert said != LONG
    page.reload()
    page.sees("Stopped.")
    assert page.text(LAST_TEXT) == said


def test_stop_while_the_agent_waits_closes_its_question(page: Browser) -> None:
    page.say("Where am I?")
    page.waits_for_status("waiting for you")
    page.click("Stop")
    page.waits_for_status("stopped")
    page.waits_for('[data-tool="get_location"][data-state="output-error"]')


def test_chats_are_listed_opened_and_deleted(page: Browser) -> None:
    page.say("Fail")
    page.waits_for_status("completed")
    page.click("New chat")
    page.sees("Talk to a durable agent")
    page.say("Let me pick a colour")
    page.waits_for_status("waiting for you")
    page.evaluate(
        "[...document.querySelectorAll('.entry .title')].find((b) => b.innerText.startsWith('Fail')).click()"
    )
    page.waits_for('[data-tool="fail"]')
    page.evaluate("localStorage.clear()")
    page.reload()  # as another browser would see it: the title comes with the chat
    page.sees("Fail", within="#chats .opened")
    page.click("Delete: Fail")
    page.click("Really delete: Fail")
    page.sees("Fail", count=0, within="#chats")
    page.sees("Talk to a durable agent")


def test_another_tabs_turn_is_shown_when_the_tab_is_looked_at_again(page: Browser, server: Replica) -> None:
    page.say("Let me pick a colour")
    page.waits_for_status("waiting for you")
    page.evaluate(
        """(async () => {
            const id = document.querySelector('[data-fact="session"]').textContent;
            const { pending } = await (await fetch(`chat/${id}`)).json();
            await fetch(`chat/${id}/answers`, {
                method: 'POST',
                headers: { 'content-type': 'application/json' },
                body: JSON.stringify({ answers: [{ toolCallId: pending[0].toolCallId, output: 'blue' }] }),
            });
            document.dispatchEvent(new Event('visibilitychange'));
        })()"""
    )
    page.sees("pick_option answered: blue.")


@pytest.fixture
def guarded(database_url: str, tmp_path: Path) -> Iterator[Replica]:
    """A server that wants to know who calls."""
    replica = Replica(
        "guarded", tmp_path, database_url, agents=None, auth="api_key", api_keys="ada:a-long-secret-key"
    )
    asyncio.run(replica.start())
    yield replica
    replica.kill()


def test_a_server_that_wants_a_key_is_given_one(browser: Browser, guarded: Replica) -> None:
    browser.new_page()
    browser.open(f"{guarded.url}/")
    browser.say("Fail")
    browser.sees("auth_required", within=".failure")
    browser.fill("API key", "a-long-secret-key")
    browser.press("Enter")
    browser.waits_for('[data-tool="fail"][data-state="output-error"]')
    browser.waits_for_status("completed")
    assert browser.complaints() == []


def test_the_page_fits_a_small_phone_in_the_dark(narrow_page: Browser) -> None:
    page = narrow_page
    page.say("Send an email to ada@example.com")
    page.waits_for_status("waiting for you")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.click("Chats")
    page.sees("Send an email to ada@example.com", within="#chats")
    page.press("Escape")
    page.click("Approve")
    page.waits_for_status("completed")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 20, 18)"
