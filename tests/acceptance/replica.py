"""One replica: ``python -m app serve`` as a process of its own."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import orjson

ROOT = Path(__file__).resolve().parents[2]
START_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Replica:
    """``settings`` are variables without their prefix, in small letters. A replica keeps its port over every restart.

    ``release`` is where its code lies."""

    def __init__(
        self, name: str, folder: Path, database_url: str | None, *, release: Path = ROOT, **settings: Any
    ) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = folder / f"{name}.log"
        self.outbox = folder / "outbox.jsonl"
        self._release = release
        self._database_url = database_url
        self._settings = {
            "scripted": True,
            "lease_seconds": 2,
            "drain_seconds": 5,
            "data_dir": folder / "data",
            "outbox": self.outbox,
            "agents": "tests.acceptance.scripts:AGENTS",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    # its life

    def spawn(self, **settings: Any) -> None:
        """Starts it, with ``settings`` for this time only; does not wait until it is ready."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_SERVER_")}
        ours.pop("DATABASE_URL", None)
        if self._database_url is not None:
            ours["DATABASE_URL"] = self._database_url
        for key, value in (self._settings | settings).items():
            if value is not None:
                ours[f"AGENT_SERVER_{key.upper()}"] = str(value).lower() if value is True else str(value)
        ours |= {"AGENT_SERVER_PORT": str(self.port), "AGENT_SERVER_LOG_FORMAT": "json"}
        with self.log_file.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve"],
                cwd=self._release,
                env=ours,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def start(self, **settings: Any) -> float:
        """Starts it. Returns the seconds until it was ready."""
        began = time.monotonic()
        self.spawn(**settings)
        await self.ready()
        return time.monotonic() - began

    async def ready(self, wanted: bool = True, within_s: float = START_S) -> None:
        """Waits until ``/health/ready`` says so (or no longer says so)."""
        deadline = time.monotonic() + within_s
        async with httpx2.AsyncClient(trust_env=False) as client:
            while True:
                try:
                    answer = await client.get(f"{self.url}/health/ready", timeout=5)
                    if (answer.status_code == 200) == wanted:
                        return
                except httpx2.TransportError:
                    if not wanted and not self.alive:
                        return
                if wanted and not self.alive:
                    raise AssertionError(f"{self.name} has ended:\n{self.log_file.read_text()[-4000:]}")
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self.name} is not {'ready' if wanted else 'red'}")
                await asyncio.sleep(0.03)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As a power cut: nothing is cleaned up."""
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    async def ended(self, within_s: float = 20.0) -> int:
        """Waits for the process's end. Returns its exit code."""
        deadline = time.monotonic() + within_s
        while self.alive:
            assert time.monotonic() < deadline, f"{self.name} does not end"
            await asyncio.sleep(0.02)
        assert self._process is not None
        return self._process.returncode

    async def terminate(self, number: signal.Signals = signal.SIGTERM, within_s: float = 20.0) -> int:
        self.send(number)
        return await self.ended(within_s)

    # what it says and holds

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged, over all its lives. A line that is no JSON is ``{"raw": …}``."""
        if not self.log_file.exists():
            return []
        said: list[dict[str, Any]] = []
        for line in self.log_file.read_bytes().splitlines():
            try:
                said.append(orjson.loads(line))
            except orjson.JSONDecodeError:
                said.append({"raw": line.decode(errors="replace")})
        return said

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line.get("event") == event]

    def open_files(self) -> int:
        """How many descriptors it holds: sockets to clients and to the database among them."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def memory(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
