"""``python -m app``: whatever keeps it from starting is one line for whoever typed it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.store.migrate import head

ROOT = Path(__file__).resolve().parent.parent


def run(command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """``python -m app COMMAND`` with these settings and no others."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_SERVER_")}
    environment.pop("DATABASE_URL", None)
    return subprocess.run(
        [sys.executable, "-m", "app", command],
        cwd=ROOT,
        env=environment | settings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_database_that_cannot_be_reached_is_one_line_without_its_password(command: str) -> None:
    ended = run(command, DATABASE_URL="postgresql://somebody:the-password@127.0.0.1:1/nothing")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("DATABASE_URL cannot be used: ")
    assert "the-password" not in ended.stderr + ended.stdout


def test_a_taken_port_is_one_line_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        data = tmp_path / "data"
        ended = run("serve", AGENT_SERVER_PORT=str(port), AGENT_SERVER_DATA_DIR=str(data))
    assert ended.returncode == 2
    assert ended.stderr == f"cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert not data.exists(), "a database was made for nothing"


def test_a_setting_with_a_typing_error_is_one_line_that_names_the_nearest() -> None:
    ended = run("check", AGENT_SERVER_PROT="1")
    assert ended.returncode == 2
    assert "AGENT_SERVER_PORT" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_start_that_fails_is_told_by_its_causes_and_no_traceback(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("a file where the folder should be")
    ended = run(
        "serve", AGENT_SERVER_PORT="0", AGENT_SERVER_DATA_DIR=str(data), AGENT_SERVER_LOG_FORMAT="json"
    )
    assert ended.returncode != 0
    (line,) = [
        found for each in ended.stdout.splitlines() if (found := json.loads(each))["event"] == "server.failed"
    ]
    assert line["causes"]
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_migration_says_where_the_schema_is_also_when_there_is_nothing_to_do(database_url: str) -> None:
    ended = run("migrate", DATABASE_URL=database_url, AGENT_SERVER_LOG_FORMAT="json")
    assert ended.returncode == 0, ended.stderr
    last = json.loads(ended.stdout.splitlines()[-1])
    assert (last["event"], last["schema"]) == ("migrate.passed", head())


def test_agents_that_cannot_be_loaded_are_one_line_without_the_secrets_of_their_fault(tmp_path: Path) -> None:
    (tmp_path / "raising_agents.py").write_text(
        'raise RuntimeError("no answer from postgresql://u:the-password@h/d with token=the-token")'
    )
    ended = run("check", AGENT_SERVER_AGENTS="raising_agents:agents", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 2
    assert ended.stderr.startswith("AGENT_SERVER_AGENTS=raising_agents:agents: RuntimeError: no answer from ")
    assert len(ended.stderr.splitlines()) == 1
    assert "the-" not in ended.stderr + ended.stdout


def test_an_option_of_the_address_that_has_no_such_value_is_one_line() -> None:
    ended = run("migrate", DATABASE_URL="postgresql://u:the-password@127.0.0.1:1/d?sslmode=perhaps")
    assert ended.returncode == 2
    assert ended.stderr.startswith("DATABASE_URL cannot be used: ")
    assert len(ended.stderr.splitlines()) == 1
    assert "the-password" not in ended.stderr + ended.stdout
