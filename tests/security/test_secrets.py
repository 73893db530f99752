"""Secrets planted everywhere, then searched for in every answer and every line of the log."""

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from app.agent.model import ModelEvent, ModelFailure, ModelRequest, ModelResponse
from app.agent.registry import Agent
from app.agent.tools import tool
from app.errors import Code
from app.log import get_logger
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, mail, script
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server

PASSWORD = "Pl4nted-dsn-password"
API_KEY = "Pl4nted-api-key"
OTHER_KEY = "sk-Pl4nted-provider-key-0123456789"
TOOL_SECRET = "Pl4nted-tool-secret"
PROMPT = "Pl4nted-prompt"
ANSWER = "Pl4nted-answer"
OUTPUT = "Pl4nted-output"
HEADER = "Pl4nted-header"
ARGUMENT = "Pl4nted-argument"
REASON = "Pl4nted-reason"

NEVER_ANSWERED = (PASSWORD, API_KEY, OTHER_KEY, TOOL_SECRET, HEADER)
NEVER_LOGGED = (*NEVER_ANSWERED, PROMPT, ANSWER, OUTPUT, ARGUMENT, REASON)


@tool
async def leaks(text: str) -> None:
    """Raises with a secret in its text, and one in its cause."""
    try:
        raise ConnectionError(f"postgresql://svc:{TOOL_SECRET}@db.internal/x refused")
    except ConnectionError as error:
        raise RuntimeError(f"password={TOOL_SECRET} Authorization: Bearer {TOOL_SECRET}") from error


class LeakyModel:
    """A provider whose errors quote the request's headers."""

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        try:
            raise ValueError(
                f"401 from https://user:{OTHER_KEY}@api.example/v1 with Bearer {OTHER_KEY}; api_key={OTHER_KEY}"
            )
        except ValueError as error:
            raise ModelFailure(Code.PROVIDER_AUTH) from error
        yield ModelResponse([])


AGENTS = [
    Agent("leaky-model", "x", LeakyModel()),
    Agent("leaky-tools", "x", LeakyModel(), (leaks,)),
]


async def everything(reply: Reply) -> str:
    """The whole answer as a client could read it."""
    return f"{reply.status} {reply.headers} {(await reply.body()).decode()}"


async def test_no_answer_and_no_line_holds_a_secret(serve: Serve, database_url: str):
    parts = urlsplit(database_url)
    # a role of its own, so that a password is in the address; the socket's trust does not look at it
    with_password = parts._replace(
        netloc=f"{parts.username or 'postgres'}:{PASSWORD}@{parts.netloc.rpartition('@')[2]}"
    ).geturl()
    seen: list[str] = []
    async with serve(
        DATABASE_URL=with_password,
        auth="api_key",
        api_keys=f"ada:{API_KEY}",
        agents="tests.security.test_secrets:AGENTS",
        scripted=True,
    ) as server:
        server.headers = {
            "authorization": f"Bearer {API_KEY}",
            "cookie": f"session={HEADER}",
            "x-custom": HEADER,
        }
        await mixed_traffic(server, seen)
        raw = server.logs._stream.getvalue()
    assert len(seen) > 15
    answers = "\n".join(seen)
    for secret in NEVER_ANSWERED:
        assert secret not in answers
    for secret in NEVER_LOGGED:
        assert secret not in raw, [line for line in raw.splitlines() if secret in line]
    assert "tool.failed" in raw
    assert "provider_auth" in raw
    assert "run.ended" in raw


async def mixed_traffic(server: Server, seen: list[str]) -> None:
    async def ask(method: str, path: str, body: Any = None, **more: Any) -> Reply:
        reply = await server.ask(method, path, body, **more)
        seen.append(await everything(reply))
        return reply

    def chat(chat_id: str, text: str, **more: Any) -> dict[str, Any]:
        return {
            "id": chat_id,
            "messages": [{"id": "u0", "role": "user", "parts": [{"type": "text", "text": text}]}],
            **more,
        }

    await ask("POST", "/chat", chat("a", PROMPT, agent="leaky-model", extra=PROMPT))
    await ask("GET", "/chat/a")
    failing = script(
        calls(call("leaks", "c", text=ARGUMENT), call("no_such_tool", "d", x=ARGUMENT)), {"text": ANSWER}
    )
    await ask("POST", "/chat", chat("b", failing, agent="leaky-tools"))
    await ask("GET", "/chat/b/stream")
    await ask("POST", "/chat/b/answers", {"answers": [{"toolCallId": "c", "output": OUTPUT}]})
    await ask(
        "POST",
        "/chat/b/answers",
        {"answers": [{"toolCallId": "c", "errorText": OUTPUT, "approvalId": REASON, "approved": 1}]},
    )
    await ask("POST", "/chat/b/stop", {"runId": PROMPT})
    await ask("POST", "/chat", raw=f'{{"id": "c", "messages": [{PROMPT}'.encode())
    await ask("POST", "/chat", chat("c", PROMPT, agent=PROMPT))
    await ask("POST", "/chat", chat("c", PROMPT, trigger=PROMPT))
    await ask("POST", "/chat", raw=PROMPT.encode(), headers={"content-type": f"text/{HEADER}"})
    await ask("GET", "/chats?cursor=" + quote(PROMPT))
    await ask("GET", "/chat/b?before=" + quote(PROMPT) + "&limit=" + PROMPT)
    await ask("GET", "/chat/b", headers={"authorization": f"Bearer {OTHER_KEY}"})
    await ask("GET", "/chat/b", headers={"authorization": f"Basic {OTHER_KEY}"})
    await ask("GET", "/metrics")
    await ask("GET", "/health/ready")
    await ask("GET", "/openapi.json")
    await server.sql("alter table message rename to message_away")
    for method, path in [
        ("GET", "/chat/b"),
        ("POST", "/chat"),
        ("POST", "/chat/b/stop"),
        ("DELETE", "/chat/b"),
    ]:
        await ask(method, path, chat("b", PROMPT) if path == "/chat" else {} if method == "POST" else None)
    await server.sql("alter table message_away rename to message")
    await server.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()"
    )
    await ask("GET", "/chat/b")
    await ask("POST", "/chat", chat("d", PROMPT, agent="leaky-tools"))


async def test_answers_reasons_and_outputs_of_a_whole_chat_are_not_in_the_log(server: Server):
    page = Page(server)
    await page.send(
        script(calls(mail("m", f"{ARGUMENT}@example.com"), call("get_location", "loc")), {"text": ANSWER})
    )
    await page.output("loc", {"at": OUTPUT}).decide("m", False, REASON).post()
    await page.send(PROMPT)
    raw = server.logs._stream.getvalue()
    for secret in NEVER_LOGGED:
        assert secret not in raw
    assert len(server.logs.of("request.ended")) == 3


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://svc:{PASSWORD}@db/x",
        f"amqps://svc:{PASSWORD}@mq:5671",
        f"Authorization: Bearer {API_KEY}",
        f"basic {API_KEY}",
        f"{OTHER_KEY}",
        f"host=db password={PASSWORD} user=x",
        f"https://x/?api_key={API_KEY}&token={API_KEY}",
    ],
)
def test_a_secret_in_an_exception_of_a_library_is_masked(logs: Any, text: str):
    get_logger("x").error("went.wrong", detail=text, exc_info=ValueError(text))
    raw = logs._stream.getvalue()
    assert "went.wrong" in raw
    assert "Pl4nted" not in raw
