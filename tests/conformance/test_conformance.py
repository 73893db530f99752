"""The real `ai` and `@ai-sdk/react` packages on Node against a real server process: all of run.mjs."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
READY_SECONDS = 60
MATRIX_SECONDS = 780


@pytest.fixture(scope="module")
def node() -> str:
    """Node, with the pinned clients beside the harness."""
    found = shutil.which("node")
    if found is None:
        pytest.fail("node (20 or newer) is needed for the conformance suite")
    pins = json.loads((HERE / "package.json").read_text())["dependencies"]
    if not all((HERE / "node_modules" / name).is_dir() for name in pins):
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(install, cwd=HERE, check=True, timeout=300)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def server(database_url: str, tmp_path: Path, log: Path) -> Iterator[str]:
    """The address of a server process of this test's own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_SERVER_")}
    # every cell at once: who waits for a slot is another test's subject
    environment = inherited | {
        "DATABASE_URL": database_url,
        "AGENT_SERVER_AGENTS": "tests.conformance.agents:AGENTS",
        "AGENT_SERVER_DATA_DIR": str(tmp_path / "data"),
        "AGENT_SERVER_LOG_FORMAT": "json",
        "AGENT_SERVER_MAX_RUNNING": "300",
        "AGENT_SERVER_PORT": str(port),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve"], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(url, process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"the server ended with {process.returncode}:\n{log.read_text()[-4000:]}")
        try:
            with urllib.request.urlopen(f"{url}/health/ready", timeout=5) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    pytest.fail(f"the server is not ready after {READY_SECONDS} s:\n{log.read_text()[-4000:]}")


def _suspicious_lines(log: Path) -> list[str]:
    """What no scenario provokes: tracebacks, faults without a code, and faults of our own."""
    found: list[str] = []
    for text in log.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            found.append(text)
            continue
        if line.get("level") not in {"error", "critical", "warning"}:
            continue
        if line.get("code") in {None, "framework_internal_error"}:
            found.append(text)
    return found


@pytest.mark.timeout(900)
def test_every_stock_client_in_every_cell(
    node: str, server: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = subprocess.run(
        [node, "run.mjs", "--url", server],
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=MATRIX_SECONDS,
    )
    lines = run.stdout.splitlines()
    with capsys.disabled():
        print(f"\nconformance: {lines[-1] if lines else 'no output'}")  # noqa: T201
    assert run.returncode == 0, "\n".join(lines[-200:])
    assert _suspicious_lines(log) == []
    # what people say to the agent is in no log
    assert "script:" not in log.read_text()
