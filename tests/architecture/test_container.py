"""What is shipped for containers speaks of settings, files and routes that exist. Without Docker, this is what can be checked."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from app.settings import PREFIX, Settings, variable
from app.store import engine
from tests.architecture import ROOT

CONTAINER = ROOT / ".container"
COMPOSE = ROOT / "docker-compose.yml"
POOLED = CONTAINER / "pgbouncer.yml"
SHIPPED = [ROOT / "Dockerfile", COMPOSE, ROOT / "Makefile", ROOT / "README.md", *sorted(CONTAINER.iterdir())]
VARIABLES = {variable(field) for field in Settings.model_fields}
TRACKED_BY_PGBOUNCER = {"timezone", "application_name"}


def compose(*files: Path) -> dict[str, Any]:
    """The services, later files over earlier ones, as Docker merges environments and dependencies."""
    services: dict[str, Any] = {}
    for file in files:
        for name, service in yaml.safe_load(file.read_text())["services"].items():
            before = services.setdefault(name, {})
            for key, value in service.items():
                both = isinstance(value, dict) and isinstance(before.get(key), dict)
                before[key] = {**before[key], **value} if both else value
    return services


def dockerfile() -> list[tuple[str, str]]:
    """Instruction and arguments; a stage begins with FROM."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()))
    return [cast("tuple[str, str]", tuple(line.split(None, 1))) for line in text.splitlines() if line.strip()]


def final_stage() -> list[tuple[str, str]]:
    lines = dockerfile()
    return lines[max(at for at, (word, _) in enumerate(lines) if word == "FROM") :]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_setting_that_is_spoken_of_exists(path: Path) -> None:
    spoken_of = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", path.read_text()))
    assert spoken_of <= VARIABLES


@pytest.mark.parametrize("files", [(COMPOSE,), (COMPOSE, POOLED)], ids=["alone", "with PgBouncer"])
def test_the_service_starts_with_what_compose_gives_it(
    monkeypatch: pytest.MonkeyPatch, files: tuple[Path, ...]
) -> None:
    image = dict(re.findall(r"(\w+)=(\S+)", " ".join(rest for word, rest in final_stage() if word == "ENV")))
    given = {**image, **compose(*files)["app"]["environment"]}
    for name, value in given.items():
        if name.startswith(PREFIX) or name == "DATABASE_URL":
            plain = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", value or "")
            monkeypatch.setenv(name, plain)
    settings = Settings()
    assert (settings.host, settings.log_format) == ("0.0.0.0", "json")
    assert settings.database_url is not None
    assert (settings.listen_url is not None) is (POOLED in files)


@pytest.mark.parametrize("files", [(COMPOSE,), (COMPOSE, POOLED)], ids=["alone", "with PgBouncer"])
def test_everything_that_a_service_of_compose_names_is_there(files: tuple[Path, ...]) -> None:
    services = compose(*files)
    whole: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    for name, service in services.items():
        assert {"image", "build"} & set(service), name
        for other, how in service.get("depends_on", {}).items():
            assert other in services, f"{name} waits for {other}"
            wanted = how["condition"]
            assert wanted != "service_healthy" or "healthcheck" in services[other], f"{other} has no health"
        for mounted in service.get("volumes", []):
            assert mounted.split(":")[0] in whole["volumes"], f"{name}: {mounted}"
        for used in service.get("configs", []):
            assert (ROOT / whole["configs"][used["source"]]["file"]).is_file()
    app = services["app"]
    assert (app["read_only"], app["cap_drop"], app["deploy"]["replicas"]) == (True, ["ALL"], 3)
    assert int(app["stop_grace_period"].removesuffix("s")) > Settings().drain_seconds
    assert set(services["migrate"]["environment"]) >= {"DATABASE_URL"}
    assert all(port.startswith("127.0.0.1:") for port in services["nginx"]["ports"])


def test_a_pooler_ignores_every_parameter_that_a_connection_of_ours_brings() -> None:
    pooled = compose(POOLED)["pgbouncer"]["environment"]
    ignored = set(pooled["IGNORE_STARTUP_PARAMETERS"].split(","))
    brought = {*engine._SETTINGS, "synchronous_commit"} - TRACKED_BY_PGBOUNCER
    assert brought <= ignored
    (told,) = re.findall(
        r"PgBouncer has to ignore the startup parameters ([^;]*);", (ROOT / "README.md").read_text()
    )
    assert brought <= set(re.findall(r"`(\w+)`", told))


def test_the_image_copies_what_is_here_and_runs_what_is_here_as_nobody_in_particular() -> None:
    for word, rest in dockerfile():
        if word == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
    last = final_stage()
    assert [rest for word, rest in last if word == "USER"] == ["agent"]
    assert not [rest for word, rest in last if word == "RUN" and re.search(r"\b(pip|uv|apt-get|gcc)\b", rest)]
    (entry,) = [json.loads(rest) for word, rest in last if word == "ENTRYPOINT"]
    assert entry == ["python", "-m", "app"]
    health = " ".join(rest for word, rest in last if word == "HEALTHCHECK")
    assert "/health/live" in health
