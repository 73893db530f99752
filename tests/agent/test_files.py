"""Files that a user attaches: given to the model in the form its provider takes, told of when they cannot be, and never fetched."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest
from pydantic_ai import DocumentUrl, ImageUrl

from app.agent.model import ModelRequest, ModelResponse
from app.agent.model_words import Inline, given_file
from app.agent.plain import plain
from app.agent.pydantic_ai_model import PydanticAiModel
from app.domain.history import assistant_entry, tool_entry, user_entry
from tests.fakes import anthropic_server, openai_server, responses_server
from tests.inprocess.chat import Page
from tests.inprocess.fixtures import fresh_agents, logs
from tests.inprocess.server import Server, serving

__all__ = ["fresh_agents", "logs"]
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PNG = b"\x89PNG\r\n\x1a\n"
KINDS = [
    *("image/png", "image/gif", "image/svg+xml", "image/*", "application/pdf", "text/plain", "text/html"),
    *(
        "application/json",
        "audio/mpeg",
        "audio/wav",
        "video/mp4",
        "application/zip",
        "application/msword",
        "",
    ),
]


def inlined(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def file(url: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "file", "url": url, "mediaType": media_type, "filename": "f"}


@pytest.mark.parametrize(
    ("url", "media_type", "given"),
    [
        (inlined(PNG), "image/png", Inline(PNG, "image/png")),
        (inlined(PNG).replace("data:", "DATA:"), "IMAGE/PNG", Inline(PNG, "image/png")),
        (inlined(PNG), "image/png; charset=binary", Inline(PNG, "image/png")),
        (inlined(PNG).replace("=", "%3D"), "image/png", Inline(PNG, "image/png")),
        ("data:image/png,%89PNG%0D%0A%1A%0A", "image/png", Inline(PNG, "image/png")),
        # Not what it says it is: a provider that looks would refuse it in every later turn too.
        (inlined(b"\xff\xd8\xff\xe0"), "image/png", Inline(b"\xff\xd8\xff\xe0", "image/jpeg")),
        (inlined(b"RIFF____WEBP"), "image/jpeg", Inline(b"RIFF____WEBP", "image/webp")),
        (inlined(b"%PDF-1.7"), "application/pdf", Inline(b"%PDF-1.7", "application/pdf")),
        (inlined(b"no image"), "image/png", None),
        (inlined(b"no pdf"), "application/pdf", None),
        (inlined(b""), "image/png", None),
        ("data:image/png;base64,", "image/png", None),
        ("data:image/png;base64,!!!", "image/png", None),
        ("data:image/png;base64,iVBORw0KGgo", "image/png", None),
        ("data:,", "text/plain", None),
        ("data:", "text/plain", None),
        ("", "image/png", None),
        ("x" * 100_000, "image/png", None),
        ("data:text/plain,a%20b", "text/plain", "a b"),
        ("data:text/plain;charset=latin-1;base64,6Q==", "text/plain; charset=latin-1", "é"),
        ("data:text/plain;charset=utf-8,%C3%A9", "text/plain", "é"),
        ("data:text/plain;charset=no-such;base64,6Q==", "text/plain", "\ufffd"),
        ("data:text/plain;charset=base64;base64,6Q==", "text/plain", "\ufffd"),
        ("data:text/csv;base64,/w==", "text/csv", "\ufffd"),
    ],
)
def test_what_a_data_url_gives(url, media_type, given):
    found = given_file(file(url, media_type), adapter="OpenAIResponsesModel")
    if isinstance(given, Inline):
        assert found == given
    else:
        assert isinstance(found, str)
        assert found.endswith(given if given is not None else "cannot be opened here]")


@contextmanager
def connections() -> Iterator[list[Any]]:
    """Every address that this process connects to meanwhile."""
    seen: list[Any] = []
    listening = True

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if listening and event in ("socket.connect", "socket.getaddrinfo"):
            seen.append(args[1] if event == "socket.connect" else args[:2])

    sys.addaudithook(hook)
    try:
        yield seen
    finally:
        listening = False


@pytest.fixture
async def trap() -> AsyncIterator[int]:
    """The port of a server that nobody is to connect to."""
    came: list[object] = []
    server = await asyncio.start_server(lambda _, writer: came.append(writer), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    assert came == []


@pytest.fixture
async def models(monkeypatch) -> AsyncIterator[dict[str, tuple[Any, PydanticAiModel]]]:
    """By name, a provider and the model that speaks to it."""
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(openai_server.openai_server())
        responses = await stack.enter_async_context(responses_server.responses_server())
        anthropic = await stack.enter_async_context(anthropic_server.anthropic_server())
        made: dict[str, tuple[Any, PydanticAiModel]] = {}
        for name, provider, key in (
            ("openai-chat:gpt-5", chat, "OPENAI"),
            ("openai:gpt-5", responses, "OPENAI"),
            ("anthropic:some-model", anthropic, "ANTHROPIC"),
        ):
            monkeypatch.setenv(f"{key}_BASE_URL", provider.url)
            monkeypatch.setenv(f"{key}_API_KEY", "k")
            made[name] = provider, PydanticAiModel(name)
        yield made
        for _, model in made.values():
            await model.aclose()


@pytest.mark.parametrize("name", ["openai-chat:gpt-5", "openai:gpt-5", "anthropic:some-model"])
async def test_nothing_is_fetched_from_here_whatever_the_file_is(models, trap, name):
    provider, model = models[name]
    reply: Any = {
        "openai-chat:gpt-5": openai_server.answer(),
        "openai:gpt-5": responses_server.turn(responses_server.text("ok")),
        "anthropic:some-model": [anthropic_server.text("ok")],
    }[name]
    urls = [
        *(f"http://127.0.0.1:{trap}/a", f"HTTP://localhost:{trap}/a", f"http://[::ffff:127.0.0.1]:{trap}/a"),
        *(f"http://user:password@127.0.0.1:{trap}/a", f"https://127.0.0.1:{trap}/a", f"//127.0.0.1:{trap}/a"),
        *("file:///etc/passwd", "http://169.254.169.254/latest/meta-data/", "ftp://127.0.0.1/a", "gs://a/b"),
    ]
    files = [file(url, kind) for url in urls for kind in KINDS]
    # What looks like the library's own files in a tool's output, too.
    looks = [
        plain(ImageUrl(urls[0], force_download=True)),
        plain(DocumentUrl(urls[0], force_download="allow-local")),
        {"kind": "image-url", "url": urls[0], "force_download": True, "media_type": "image/png"},
        {"kind": "binary", "data": "iVBORw0KGgo=", "media_type": "image/png"},
    ]
    call = {"type": "call", "id": "c", "tool": "t", "input": {}}
    result = {"id": "c", "tool": "t", "outcome": "ok", "value": [*looks, looks]}
    made = {"type": "file", "mediaType": "image/png", "url": urls[0]}
    history = [user_entry(files), assistant_entry([made, call]), tool_entry([result]), user_entry(files[:1])]
    provider.replies.append(reply)
    with connections() as seen:
        *_, response = [event async for event in model.step(ModelRequest("", history))]
    assert isinstance(response, ModelResponse)
    assert b"root:" not in json.dumps(provider.requests).encode()
    own = int(provider.url.split(":")[2].split("/")[0])
    assert {address[1] for address in seen} == {own}, seen
    if name == "openai-chat:gpt-5":
        assert openai_server.faults_of(provider.requests[0]) == []


@pytest.fixture
async def server(database_url, tmp_path, logs, models) -> AsyncIterator[Server]:
    chosen = {"agents": None, "scripted": False, "model": "anthropic:some-model"}
    async with serving(database_url, tmp_path, logs, **chosen) as running:
        yield running


async def test_a_bad_file_breaks_no_turn_and_a_large_one_is_sent_once(server, models):
    provider, _ = models["anthropic:some-model"]
    large = inlined(PNG + b"\0" * 1_000_000)
    bad = ["", "data:", "data:image/png;base64,!!!", "data:image/png;base64,aGk=", "http://[", "javascript:1"]
    page = Page(server)
    provider.replies += [[anthropic_server.text("I see.")], [anthropic_server.text("Still.")]]
    parts = [{"type": "text", "text": " \n"}, file(large), *(file(url) for url in bad)]
    page.messages.append({"id": "u0", "role": "user", "parts": parts})
    reply = await page.post()
    assert page.text == "I see."
    assert large not in json.dumps(reply.frames)
    snapshot = json.dumps(await server.snapshot("chat"))
    assert snapshot.count(large) == 1
    await page.send("And now?")
    assert page.text == "Still."
    assert provider.faults == []
    kinds = [block["type"] for block in provider.requests[-1]["messages"][0]["content"]]
    assert kinds == ["image", *["text"] * len(bad)]


async def test_a_message_of_nothing_but_spaces_breaks_no_turn(server, models):
    provider, _ = models["anthropic:some-model"]
    provider.replies += [[anthropic_server.text("?")], [anthropic_server.text("!")]]
    page = Page(server)
    await page.send(" \n ")
    await page.send("Hello")
    assert (page.text, provider.faults) == ("!", [])


async def test_a_file_over_the_limit_is_413_and_nothing_is_stored(server):
    page = Page(server)
    page.messages.append({"id": "u0", "role": "user", "parts": [file(inlined(PNG + b"\0" * 4_000_000))]})
    reply = await page.post()
    assert (reply.status, reply.error["code"]) == (413, "state_size_exceeded")
    assert "PNG" not in json.dumps(reply.error)
    assert (await server.ask("GET", "/chat/chat")).status == 404
