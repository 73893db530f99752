"""API keys: how they are written, what each may do, and a file of them that changes while the server runs."""

from hashlib import sha256
from pathlib import Path

import pytest

from app.api import api_keys
from app.api.api_keys import KeyFile, parse
from app.main import authenticator
from app.settings import Settings, SettingsError
from tests.inprocess.chat import Page, call, calls
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Logs, Server


def hashed(key: str) -> str:
    return f"sha256:{sha256(key.encode()).hexdigest()}"


async def status(server: Server, key: str, method: str = "GET", path: str = "/chat/c/stream") -> int:
    return (await server.ask(method, path, headers={"authorization": f"Bearer {key}"})).status


async def test_api_keys_in_plain_and_hashed_name_their_owners(serve: Serve):
    eve = hashed("k-eve")
    async with serve(auth="api_key", api_keys=f"ada:k-ada, eve:{eve}") as server:
        for sent, status in [
            ("Bearer k-ada", 204),
            ("bearer k-eve", 204),
            ("Bearer k-ad", 401),
            ("Bearer k-ada2", 401),
            (f"Bearer {eve.removeprefix('sha256:')}", 401),
            (f"Bearer {eve}", 401),
            ("Basic k-ada", 401),
            ("k-ada", 401),
            ("Bearer ", 401),
            ("Bearer k-ada,k-eve", 401),
            ("Bearer \xff", 401),
        ]:
            reply = await server.ask("GET", "/chat/c/stream", headers={"authorization": sent})
            assert reply.status == status, sent
        reply = await server.ask("GET", "/metrics", headers={"authorization": "Bearer k-ada"})
        assert reply.status == 403


@pytest.mark.parametrize(
    ("entry", "owner", "scopes", "key"),
    [
        ("ada:k", "ada", {"chat", "answers"}, "k"),
        (f"ada:{hashed('k')}", "ada", {"chat", "answers"}, "k"),
        ("ada:a:b::c", "ada", {"chat", "answers"}, "a:b::c"),
        ("ops:scope=admin:k", "ops", {"admin"}, "k"),
        (f"ada:scope=answers:{hashed('k')}", "ada", {"answers"}, "k"),
        ("ada:scope=chat+admin:a:b", "ada", {"chat", "admin"}, "a:b"),
        ("ada@example.com:k", "ada@example.com", {"chat", "answers"}, "k"),
    ],
)
def test_an_entry_names_an_owner_a_key_and_perhaps_what_it_may_do(
    entry: str, owner: str, scopes: set[str], key: str
):
    (found,) = parse([f" {entry} ", ""])
    assert found.principal.owner == owner
    assert found.principal.scopes == scopes
    assert found.digest == sha256(key.encode()).digest()


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("s3cret", "should be"),
        (":s3cret", "should be"),
        ("ada:", "should be"),
        (f"{'a' * 257}:s3cret", "should be"),
        ("ada:sha256:s3cret", "64 hex digits"),
        ("ada:sha256:", "64 hex digits"),
        ("ada:scope=:s3cret", "scopes are chat, answers, admin"),
        ("ada:scope=admin,chat:s3cret", "scopes are"),
        ("ada:scope=root:s3cret", "scopes are"),
        ("ada:scope=admin", "should be"),
        ("ada:scope=admin:", "should be"),
        ("ada:scope=admin:scope=chat:s3cret", "should be"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_told_by_its_number_alone(entry: str, why: str):
    with pytest.raises(ValueError, match=rf"entry 2.*{why}") as refused:
        parse(["ada:k", entry])
    assert "s3cret" not in str(refused.value)


async def test_a_key_with_scopes_may_do_just_that(serve: Serve):
    keys = "ada:k-ada,ada:scope=answers:k-approver,ops:scope=admin:k-ops"
    async with serve(auth="api_key", api_keys=keys) as server:
        server.headers = {"authorization": "Bearer k-ada"}
        await Page(server).play(calls(call("get_location", "loc")))
        answer = {"answers": [{"toolCallId": "loc", "output": 1}]}
        approver = {"authorization": "Bearer k-approver"}
        assert (await server.ask("GET", "/chat/chat", headers=approver)).status == 403
        assert (await server.ask("POST", "/chat/chat/answers", answer, headers=approver)).status == 200
        assert [await status(server, key, path="/metrics") for key in ("k-ada", "k-approver", "k-ops")] == [
            403,
            403,
            200,
        ]
        assert await status(server, "k-ops", path="/chats") == 403


# --- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def put(path: Path, text: str) -> None:
    """In one step, as a secret that is mounted is exchanged."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


async def test_a_file_of_keys_is_read_again_when_it_changes(
    serve: Serve, path: Path, logs: Logs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(api_keys, "LOOK_EVERY_S", 0.0)
    put(path, f"# of the team\n\nada:{hashed('first')}\n")
    async with serve(auth="api_key", api_keys="ops:always", api_keys_file=path) as server:
        assert [await status(server, key) for key in ("first", "second", "always")] == [204, 401, 204]
        put(path, f"ada:{hashed('second')}\n")
        assert [await status(server, key) for key in ("first", "second", "always")] == [401, 204, 204]
        assert logs.of("auth.key_file_read", keys=1)
        put(path, "ada:second\nhalf a li")
        assert [await status(server, "second") for _ in range(3)] == [204, 204, 204], (
            "the last good keys stay"
        )
        (line,) = logs.of("auth.key_file_refused", level="error")
        assert line["causes"] == ["ValueError: entry 2 should be owner:key or owner:sha256:HEX"]
        path.unlink()
        assert await status(server, "second") == 204
        put(path, "")
        assert [await status(server, key) for key in ("second", "always")] == [401, 204], "all are taken back"


def test_a_file_is_looked_at_once_in_a_while(path: Path, logs: Logs):
    put(path, "ada:first")
    at = [0.0]
    file = KeyFile(path, now=lambda: at[0])
    before = file.current()
    put(path, "ada:second")
    at[0] = 0.9
    assert file.current() is before
    at[0] = 1.0
    assert [key.digest for key in file.current()] == [sha256(b"second").digest()]


@pytest.mark.parametrize("text", [None, "ada", "# nobody\n", "ada:scope=root:s3cret"])
def test_a_file_that_cannot_be_used_ends_the_start_in_one_line(path: Path, text: str | None):
    if text is not None:
        put(path, text)
    with pytest.raises(SettingsError, match=r"^AGENT_SERVER_API_KEYS") as refused:
        authenticator(Settings(auth="api_key", api_keys_file=path))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("keys", ["s3cret", "me:sha256:s3cret", ",", "me:scope=root:s3cret"])
def test_keys_that_cannot_be_used_end_the_start_in_one_line(monkeypatch: pytest.MonkeyPatch, keys: str):
    monkeypatch.setenv("AGENT_SERVER_API_KEYS", keys)
    with pytest.raises(SettingsError, match=r"^AGENT_SERVER_API_KEYS") as refused:
        authenticator(Settings(auth="api_key"))
    assert "s3cret" not in str(refused.value)
