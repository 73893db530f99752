"""A new message while a run waits: the answers in the posted list are taken first, then everything else of it is closed."""

from app.domain.call_state import CLOSED, CloseCode
from tests.inprocess.agents import gates, told
from tests.inprocess.chat import Page, call, calls, mail, refusal, script
from tests.inprocess.server import Server

ABANDONED = CLOSED[CloseCode.ABANDONED][1]


async def waiting(server: Server) -> Page:
    page = Page(server)
    await page.play(calls(call("get_location", "loc"), mail("m")), {"text": "bye"})
    return page


async def test_the_answers_in_the_posted_message_are_taken_first(server: Server):
    page = await waiting(server)
    page.output("loc", {"x": 1})
    await page.send(script({"text": "next"}), "next")
    assert told() == [("loc", "ok"), ("m", "abandoned")]
    await page.reload()
    assert page.part("loc")["output"] == {"x": 1}
    part = page.part("m")
    assert (part["state"], part["errorText"], part["providerExecuted"]) == ("output-error", ABANDONED, True)
    assert "approval" not in part


async def test_an_approval_in_it_is_taken_and_its_tool_never_begins(server: Server):
    page = await waiting(server)
    page.decide("m", True)
    await page.send(script({"text": "next"}), "next")
    assert not server.sent_mail()
    assert told() == [("loc", "abandoned"), ("m", "abandoned")]


async def test_an_answer_in_it_that_is_refused_does_not_refuse_the_message(server: Server):
    page = await waiting(server)
    page.decide("m", "yes")
    reply = await page.send(script({"text": "next"}), "next")
    assert reply.status == 200
    assert told() == [("loc", "abandoned"), ("m", "abandoned")]


async def test_typing_yes_approves_nothing_and_the_model_is_told_so(server: Server):
    page = await waiting(server)
    late = page.copy().decide("m", True)
    await page.send("yes, do it", "yes")
    assert not server.sent_mail()
    assert told() == [("loc", "abandoned"), ("m", "abandoned")]
    assert refusal(await late.post()) == (409, "state_not_resumable", "stale_run")


async def test_a_call_that_the_page_cancelled_itself_is_taken_as_an_error(server: Server):
    page = await waiting(server)
    page.part("m").update(state="output-error", errorText="cancelled")
    page.error("loc", "cancelled")
    reply = await page.send(script({"text": "next"}), "next")
    assert reply.status == 200
    assert told() == [("loc", "error"), ("m", "abandoned")]


async def test_user_and_assistant_alternate_and_each_call_has_one_result(server: Server):
    page = await waiting(server)
    for number in range(3):
        await page.send(script(calls(call("get_location", f"l{number}"))), f"next{number}")
    await page.send(script({"text": "end"}), "end")
    roles = [m["role"] for m in (await server.snapshot("chat"))["messages"]]
    assert roles == ["user", "assistant"] * 5
    results = [result_id for result_id, _ in told()]
    assert results == ["loc", "m", "l0", "l1", "l2"]


async def test_its_open_streams_are_destroyed(serve):
    async with serve(on_busy="interrupt") as server:
        page = Page(server)
        open_stream = await page.say(script(calls(call("hold", "h", gate="g")))).open()
        await gates["g"].reached.wait()
        await page.send(script({"text": "next"}), "next")
        await open_stream.rest()
        assert open_stream.destroyed
        assert not open_stream.done
