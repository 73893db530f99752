"""The embedded Postgres with real processes: shared, killed, half made, in odd places."""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from app.store.embedded import EmbeddedPostgresError, start_embedded
from app.store.postmaster import Postmaster

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(60)

# A server as it is in life: it starts, says so, and leaves when told to.
SERVER = """
import asyncio, sys
from pathlib import Path
from app.store.embedded import start_embedded

async def serve():
    async with await start_embedded(Path(sys.argv[1])) as postgres:
        print(postgres.url, flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(serve())
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "d"
    yield folder
    if (left := postmaster(folder)) is not None and left.is_here(folder / "postgres/data"):
        os.kill(left.pid, signal.SIGKILL)


def postmaster(data_dir: Path) -> Postmaster | None:
    return Postmaster.of(data_dir / "postgres/data")


def pid_of(data_dir: Path) -> int:
    running = postmaster(data_dir)
    assert running is not None
    assert running.answers()
    return running.pid


async def ask(url: str, question: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


async def until_gone(pid: int) -> None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while b"Z" not in Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]:
            os.kill(pid, 0)
            await asyncio.sleep(0.01)  # another process' end gives no signal to wait for


class Server:
    def __init__(self, data_dir: Path, *run_by: str) -> None:
        command = [*run_by, sys.executable, "-c", SERVER, str(data_dir)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    async def url(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.to_thread(self.process.stdout.readline)).strip()

    async def end(self, number: signal.Signals | None = None) -> int:
        if number is not None:
            self.process.send_signal(number)
        await asyncio.to_thread(self.process.communicate, "" if number else "\n")
        return self.process.returncode


async def test_it_starts_answers_and_is_gone_after_the_last_one_left(data_dir: Path) -> None:
    async with await start_embedded(data_dir) as postgres:
        pid = pid_of(data_dir)
        assert "PostgreSQL 18" in str(await ask(postgres.url, "select version()"))
        assert await ask(postgres.url, "show timezone") == "UTC"
        assert await ask(postgres.url, "show fsync") == "on"
        assert await ask(postgres.url, "show server_encoding") == "UTF8"
        assert await ask(postgres.url, "show listen_addresses") == ""
        assert await ask(postgres.url, "select 'Ä' < 'b' or upper('ä') = 'Ä'")
    assert postmaster(data_dir) is None
    await until_gone(pid)


async def test_what_was_stored_is_there_after_a_restart(data_dir: Path) -> None:
    async with await start_embedded(data_dir) as postgres:
        await ask(postgres.url, "create table kept (n int)")
    async with await start_embedded(data_dir) as postgres:
        assert await ask(postgres.url, "select count(*) from kept") == 0


async def test_stopping_twice_is_stopping_once(data_dir: Path) -> None:
    postgres = await start_embedded(data_dir)
    await postgres.stop()
    await postgres.stop()
    assert postmaster(data_dir) is None


async def test_servers_that_start_at_once_share_one_and_the_last_stops_it(data_dir: Path) -> None:
    servers = [Server(data_dir) for _ in range(3)]
    urls = {await server.url() for server in servers}
    assert len(urls) == 1
    pid = pid_of(data_dir)
    for server in servers[:-1]:
        assert await server.end() == 0
        assert pid_of(data_dir) == pid
    assert await ask(urls.pop(), "select 1") == 1
    assert await servers[-1].end() == 0
    assert postmaster(data_dir) is None
    await until_gone(pid)


async def test_two_in_one_process_share_one_too(data_dir: Path) -> None:
    first, second = await asyncio.gather(start_embedded(data_dir), start_embedded(data_dir))
    await first.stop()
    assert await ask(second.url, "select 1") == 1
    await second.stop()
    assert postmaster(data_dir) is None


async def test_a_killed_server_leaves_postgres_to_the_next_one(data_dir: Path) -> None:
    server = Server(data_dir)
    await ask(await server.url(), "create table kept (n int)")
    pid = pid_of(data_dir)
    await server.end(signal.SIGKILL)

    async with await start_embedded(data_dir) as postgres:
        assert pid_of(data_dir) == pid
        assert await ask(postgres.url, "select count(*) from kept") == 0
    await until_gone(pid)


async def test_a_killed_server_does_not_keep_others_from_stopping_it(data_dir: Path) -> None:
    server = Server(data_dir)
    await server.url()
    async with await start_embedded(data_dir):
        await server.end(signal.SIGKILL)
    assert postmaster(data_dir) is None


async def test_a_killed_postgres_recovers_what_was_committed(data_dir: Path) -> None:
    postgres = await start_embedded(data_dir)
    await ask(postgres.url, "create table kept (n int)")
    await ask(postgres.url, "insert into kept values (1), (2)")
    os.kill(pid_of(data_dir), signal.SIGKILL)
    await postgres.stop()

    async with await start_embedded(data_dir) as again:
        assert await ask(again.url, "select count(*) from kept") == 2


async def test_the_process_id_of_a_dead_one_may_be_somebody_elses_by_now(data_dir: Path) -> None:
    server = Server(data_dir)
    await server.url()
    dead = pid_of(data_dir)
    os.kill(dead, signal.SIGKILL)
    await until_gone(dead)
    await server.end(signal.SIGKILL)

    # a stranger that looks alive to Postgres: the same account, not its parent
    stranger = subprocess.Popen(["sleep", "60"], user=(data_dir / "postgres/data").stat().st_uid)
    try:
        pid_file = data_dir / "postgres/data/postmaster.pid"
        pid_file.write_text(pid_file.read_text().replace(str(dead), str(stranger.pid), 1))
        async with await start_embedded(data_dir) as postgres:
            assert await ask(postgres.url, "select 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_server_killed_while_it_makes_the_cluster_leaves_nothing_half(data_dir: Path) -> None:
    server = Server(data_dir)
    while not any(data_dir.glob("postgres/initialising-*/base")):
        await asyncio.sleep(0.005)  # initdb tells nobody how far it is
    await server.end(signal.SIGKILL)
    assert not (data_dir / "postgres/data").exists()

    async with await start_embedded(data_dir) as postgres:
        assert await ask(postgres.url, "select 1") == 1


async def test_a_start_that_is_cancelled_leaves_nothing_running(data_dir: Path) -> None:
    starting = asyncio.create_task(start_embedded(data_dir))
    while not (data_dir / "postgres/gate").exists():
        await asyncio.sleep(0.005)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert postmaster(data_dir) is None


@pytest.mark.parametrize("name", ["x" * 120, "with space, comma and 'quote\"", "ünï"])
async def test_the_folder_may_be_deep_or_odd(data_dir: Path, name: str) -> None:
    async with await start_embedded(data_dir / name) as postgres:
        assert await ask(postgres.url, "select 1") == 1
        folder = Postmaster.of(data_dir / name / "postgres/data").folder  # type: ignore[union-attr]
        assert folder.stat().st_mode & 0o077 == 0
    assert not (folder / ".s.PGSQL.5432").exists()


async def test_a_damaged_folder_is_refused_and_left_alone(data_dir: Path) -> None:
    (data_dir / "postgres/data").mkdir(parents=True)
    (data_dir / "postgres/data/precious").write_text("x")
    with pytest.raises(EmbeddedPostgresError, match=r"damaged.*move it away"):
        await start_embedded(data_dir)
    assert (data_dir / "postgres/data/precious").read_text() == "x"


async def test_another_version_is_refused_and_left_alone(data_dir: Path) -> None:
    await (await start_embedded(data_dir)).stop()
    (data_dir / "postgres/data/PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedPostgresError, match=r"made by Postgres 17, this is 18"):
        await start_embedded(data_dir)


async def test_postgres_own_words_tell_why_it_does_not_start(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="max_connections"):
        await start_embedded(data_dir, {"max_connections": "many"})
    async with await start_embedded(data_dir) as postgres:
        assert await ask(postgres.url, "select 1") == 1


async def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="cannot use"):
        await start_embedded(tmp_path / "file")


async def test_the_environment_of_another_postgres_does_not_lead_astray(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "1", "PGDATA": "/nowhere", "PGHOST": "elsewhere", "PGUSER": "me"}.items():
        monkeypatch.setenv(name, value)
    async with await start_embedded(data_dir) as postgres:
        assert await ask(postgres.url, "select current_user::text") == "postgres"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@needs_root
async def test_an_ordinary_user_runs_it_under_its_own_account(tmp_path: Path) -> None:
    daemon = pwd.getpwnam("daemon")
    folder = Path(f"/var/tmp/agent-server-test-{os.getpid()}")
    folder.mkdir(mode=0o755)
    os.chown(folder, daemon.pw_uid, daemon.pw_gid)
    try:
        # the capability is for a Python and a clone that lie where only root can go
        lend = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
        server = Server(
            folder, "setpriv", f"--reuid={daemon.pw_uid}", "--regid=daemon", "--clear-groups", *lend
        )
        assert await server.url()
        assert (folder / "postgres/data").stat().st_uid == daemon.pw_uid
        assert await server.end() == 0
        assert postmaster(folder) is None
        # and root, later, keeps to that account
        async with await start_embedded(folder) as postgres:
            assert await ask(postgres.url, "select 1") == 1
            assert Path(f"/proc/{pid_of(folder)}").stat().st_uid == daemon.pw_uid
    finally:
        shutil.rmtree(folder)


@needs_root
async def test_root_can_use_it_in_a_folder_that_is_private(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    async with await start_embedded(data_dir) as postgres:
        assert await ask(postgres.url, "select 1") == 1
        assert Path(f"/proc/{pid_of(data_dir)}").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert data_dir.stat().st_mode & 0o777 == 0o700
