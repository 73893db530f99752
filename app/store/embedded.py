"""The default database: a real Postgres from a pip package, started by the first server that needs it.

Everything lies under `<data dir>/postgres`: `data/` is the cluster and holds its socket, `log` is what
Postgres says. `gate` is locked by whoever starts or stops Postgres, so that it happens one at a time; `users`
is locked, shared, by every server that uses it, and the last one to leave stops Postgres. Both locks are the
kernel's, so kill -9 releases them: a killed server leaves Postgres running and the next one takes it over. A
Postgres that was killed itself is started anew and recovers. A cluster gets its name only when initdb has
finished, so that a half-made one is never met.

It listens on a socket with mode 0700 and on no port: only the owner of the folder, and root, can connect.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from app.store.postmaster import Account, Postmaster, major_version

GATE_SECONDS = 180.0
START_SECONDS = 120.0  # recovery after a crash included
RETRY_SECONDS = 15.0  # what remains of a killed Postgres needs a moment to notice and go
STOP_SIGNALS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))  # seconds for each
POLL_SECONDS = 0.02
LOG_LIMIT = 10 * 2**20  # bytes

OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # its log shall hold no contents: no statements, and not the DETAIL of an error, which quotes rows
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot be used. The message says why; DATABASE_URL names any other one."""


class EmbeddedPostgres:
    """A Postgres that this process uses. Leave it with `stop`, or as an async context manager.

    `url` is `postgresql://…` of the database `postgres`, over a socket; it holds no secret. `alone`: nobody else
    used the folder when this process came, so whatever the database says of earlier users is of the dead.
    """

    def __init__(self, cluster: "_Cluster", url: str) -> None:
        self._cluster = cluster
        self.url = url
        self.alone = cluster.alone

    async def stop(self) -> None:
        """Leave it. The last one to leave stops Postgres, which closes open connections. Idempotent."""
        await asyncio.to_thread(self._cluster.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def start_embedded(data_dir: Path, options: Mapping[str, str] | None = None) -> EmbeddedPostgres:
    """Use the Postgres of `data_dir`: made, started or recovered when it has to be, joined when it runs.

    `options` are server settings over `OPTIONS`, for the one who starts it. Raises `EmbeddedPostgresError`.
    """
    cluster = _Cluster(data_dir, {**OPTIONS, **(options or {})})
    joining = asyncio.ensure_future(asyncio.to_thread(cluster.join))
    try:
        return EmbeddedPostgres(cluster, await asyncio.shield(joining))
    except asyncio.CancelledError:
        # the thread goes on, and what it starts must not outlive us
        with contextlib.suppress(EmbeddedPostgresError):
            await joining
            await asyncio.to_thread(cluster.leave)
        raise


class _Cluster:
    """The folder, the locks and the process. Blocking: called in a thread."""

    def __init__(self, data_dir: Path, options: Mapping[str, str]) -> None:
        self._home = data_dir.resolve() / "postgres"
        self._data = self._home / "data"
        self._log = self._home / "log"
        self._options = options
        self._use: int | None = None  # our lock on `users`
        self.alone = False
        self._process: subprocess.Popen[bytes] | None = None  # when it was we who started Postgres

    def join(self) -> str:
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            with self._gate():
                if (nobody := _lock(self._home / "users", fcntl.LOCK_EX)) is not None:
                    self.alone = True
                    os.close(nobody)
                self._use = _lock(self._home / "users", fcntl.LOCK_SH)
                try:
                    account = Account.of(self._data)
                    self._initialise(account)
                    folder = self._ensure_running(account)
                except BaseException:
                    self._release()
                    raise
        except (OSError, LookupError) as error:
            raise EmbeddedPostgresError(f"cannot use {self._home}: {error}") from error
        return "postgresql://postgres@/postgres?" + urlencode({"host": str(folder), "port": 5432})

    def leave(self) -> None:
        if self._use is not None:
            with self._gate():
                self._release()

    @contextlib.contextmanager
    def _gate(self) -> Generator[None]:
        deadline = time.monotonic() + GATE_SECONDS
        while (handle := _lock(self._home / "gate", fcntl.LOCK_EX)) is None:
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"another server has held {self._home / 'gate'} for too long")
            time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            os.close(handle)

    def _initialise(self, account: Account) -> None:
        version_file = self._data / "PG_VERSION"
        if version_file.exists():
            if (made_by := version_file.read_text().strip()) != major_version():
                raise EmbeddedPostgresError(
                    f"{self._data} was made by Postgres {made_by}, this is {major_version()}: dump it with "
                    "the old one and restore it into a new data folder, or move it away to begin anew"
                )
            if self._data.stat().st_uid == 0:  # a copy that root made
                account.give(self._data)
            return
        if self._data.exists() and any(self._data.iterdir()):
            raise EmbeddedPostgresError(f"{self._data} is damaged: restore it, or move it away to begin anew")
        for leftover in self._home.glob("initialising-*"):  # of a server that was killed during initdb
            shutil.rmtree(leftover, ignore_errors=True)
        # a new name each time: the initdb of a killed server may still be at work on the old one
        making = Path(tempfile.mkdtemp(prefix="initialising-", dir=self._home))
        account.give(making)
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        arguments = ["-U", "postgres", "--auth=trust", "--no-instructions", *locale]
        process = account.start("initdb", arguments, cluster=making, output=subprocess.PIPE)
        said, _ = process.communicate()
        if process.returncode:
            shutil.rmtree(making, ignore_errors=True)
            raise EmbeddedPostgresError(f"initdb failed in {self._home}: {_last_lines(said)}")
        making.replace(self._data)

    def _ensure_running(self, account: Account) -> Path:
        begun = time.monotonic()
        log_begin = 0
        while time.monotonic() < begun + START_SECONDS:
            running = Postmaster.of(self._data)
            if self._process is not None and self._process.poll() is not None:
                self._process = None
                said = _last_lines(self._log.read_bytes()[log_begin:])
                passing = "in use" in said or "already exists" in said  # the last moments of a killed one
                if not passing or time.monotonic() > begun + RETRY_SECONDS:
                    raise EmbeddedPostgresError(f"Postgres does not start in {self._data}: {said}")
            elif running is not None and running.state == "ready" and running.answers():
                return running.folder
            elif self._process is None and not (running is not None and running.answers()):
                if running is not None:
                    running.disown(self._data)
                log_begin = self._spawn(account)
            time.sleep(POLL_SECONDS)
        raise EmbeddedPostgresError(f"Postgres is not ready after {START_SECONDS:g} s; see {self._log}")

    def _spawn(self, account: Account) -> int:
        """Start Postgres; returns where in the log its words begin."""
        place = ["-k", str(account.socket_folder(self._data)), "-p", "5432"]
        settings = [f"--{name}={value}" for name, value in self._options.items()]
        self._log.touch(mode=0o600)
        with self._log.open("ab") as output:
            if output.tell() > LOG_LIMIT:
                output.truncate(0)
            begin = output.tell()
            self._process = account.start("postgres", place + settings, cluster=self._data, output=output)
        return begin

    def _release(self) -> None:
        """Give up our use, and stop Postgres when nobody else uses it. Called in the gate."""
        if self._use is not None:
            os.close(self._use)
            self._use = None
        if (last := _lock(self._home / "users", fcntl.LOCK_EX)) is not None:
            self._stop()
            os.close(last)
        elif self._process is not None:
            self._process.returncode = 0  # it lives on for the others; the last of them stops it
        self._process = None

    def _stop(self) -> None:
        running = Postmaster.of(self._data)
        pid = running.pid if running is not None and running.is_here(self._data) else None
        if self._process is not None:
            pid = self._process.pid if self._process.poll() is None else None
        for stop, seconds in STOP_SIGNALS:
            deadline = time.monotonic() + seconds
            with contextlib.suppress(ProcessLookupError):
                if pid is not None:
                    os.kill(pid, stop)
            while pid is not None and time.monotonic() < deadline:
                pid = pid if self._lives(pid) else None
                time.sleep(POLL_SECONDS)
        if running is not None and running.folder != self._data:
            with contextlib.suppress(OSError):
                running.folder.rmdir()

    def _lives(self, pid: int) -> bool:
        if self._process is not None:
            return self._process.poll() is None  # also takes our dead child away
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        # where nobody takes dead orphans away, as in many containers, its file tells that it ended
        return Postmaster.of(self._data) is not None


def _lock(path: Path, kind: int) -> int | None:
    """An open file that holds the lock until it is closed; None when another holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _last_lines(output: bytes) -> str:
    return " / ".join(output.decode(errors="replace").strip().splitlines()[-5:])
