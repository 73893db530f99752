"""The settings: read once from the environment, refused with every fault and the nearest name, printed without a secret."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.settings import PREFIX, Settings, SettingsError, table, variable


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(PREFIX) or name == "DATABASE_URL":
            monkeypatch.delenv(name)


def refusal(monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[str]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        Settings()
    assert caught.value.__cause__ is None
    return str(caught.value).splitlines()


def test_a_bare_environment_serves_on_loopback_with_everything_by_default() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.auth) == ("127.0.0.1", 8000, "none")
    assert settings.outbox == Path(".data/outbox.jsonl")
    assert settings.database_url is None


def test_the_environment_fills_fields_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SERVER_PORT", "9000")
    monkeypatch.setenv("AGENT_SERVER_LEASE_SECONDS", "1.5")
    monkeypatch.setenv("AGENT_SERVER_CORS_ORIGINS", "https://a.example, http://localhost:3000")
    assert Settings().port == 9000
    assert Settings().lease_seconds == 1.5
    assert Settings().cors_origins == ("https://a.example", "http://localhost:3000")
    assert Settings(port=0).port == 0


def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SERVER_MODEL", "")
    monkeypatch.setenv("DATABASE_URL", "")
    assert Settings().model is None
    assert Settings().database_url is None


def test_the_outbox_follows_the_data_folder() -> None:
    assert Settings(data_dir=Path("/d")).outbox == Path("/d/outbox.jsonl")
    assert Settings(data_dir=Path("/d"), outbox=Path("/o")).outbox == Path("/o")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
def test_every_spelling_of_a_postgres_url_becomes_one(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("DATABASE_URL", f"{scheme}://u:p@h/d")
    url = Settings().database_url
    assert url is not None
    assert url.get_secret_value() == "postgresql://u:p@h/d"


@pytest.mark.parametrize(
    "address",
    [
        "/d?host=/run",
        "h1:1,h2:2/d",
        "u:p@[::1]:5432/d?sslmode=require",
        "u:p@/d",
        "u@h:/d",
        "u:p%2Fq@h",
        "u:p@q@h/d",
        "",
    ],
)
def test_an_address_of_every_shape_is_taken(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://{address}")
    assert Settings().database_url is not None


@pytest.mark.parametrize("variable", ["DATABASE_URL", "AGENT_SERVER_LISTEN_URL"])
@pytest.mark.parametrize("character", ["/", "?", "#"])
def test_a_password_that_breaks_its_url_is_refused_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, variable: str, character: str
) -> None:
    (line,) = refusal(monkeypatch, **{variable: f"postgresql://u:s3c{character}r3t@h:5432/d"})
    assert line.startswith(f"{variable}: is not a URL: ")
    assert "s3c" not in line
    assert "r3t" not in line


def test_nothing_that_is_printed_holds_a_secret() -> None:
    settings = Settings(
        database_url=SecretStr("postgresql://u:s3cret@h/d"), auth="api_key", api_keys=SecretStr("me:s3cret")
    )
    assert "s3cret" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_misspelt_variable_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(monkeypatch, AGENT_SERVER_PROT="1") == [
        "AGENT_SERVER_PROT is not a setting; did you mean AGENT_SERVER_PORT?"
    ]


def test_a_wrong_prefix_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(monkeypatch, AGENT_SERVER_DATABASE_URL="postgresql://h/d") == [
        "AGENT_SERVER_DATABASE_URL is not a setting; did you mean DATABASE_URL?"
    ]


def test_every_fault_is_told_at_once_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = refusal(
        monkeypatch,
        AGENT_SERVER_PORT="99999",
        AGENT_SERVER_ON_BUSY="wait",
        AGENT_SERVER_SCRIPTED="perhaps",
        AGENT_SERVER_LEASE_SECONDS="nan",
        AGENT_SERVER_COLOUR_SCHEME="x",
    )
    assert [line.split(":")[0].split(" ")[0] for line in lines] == [
        "AGENT_SERVER_COLOUR_SCHEME",
        "AGENT_SERVER_PORT",
        "AGENT_SERVER_SCRIPTED",
        "AGENT_SERVER_ON_BUSY",
        "AGENT_SERVER_LEASE_SECONDS",
    ]


def test_a_refused_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = refusal(monkeypatch, DATABASE_URL="mysql://u:s3cret@h/d")
    assert line.startswith("DATABASE_URL")
    assert "s3cret" not in line


@pytest.mark.parametrize(
    ("environment", "needed"),
    [
        ({"AGENT_SERVER_AUTH": "api_key"}, "AGENT_SERVER_API_KEYS or AGENT_SERVER_API_KEYS_FILE"),
        ({"AGENT_SERVER_AUTH": "jwt"}, "AGENT_SERVER_JWT_JWKS_URL"),
        ({"AGENT_SERVER_HOST": "0.0.0.0"}, "AGENT_SERVER_ALLOW_UNAUTHENTICATED"),
        ({"AGENT_SERVER_HOST": "::"}, "AGENT_SERVER_AUTH"),
        ({"AGENT_SERVER_AUTH": "jtw"}, "jwt"),
        ({"AGENT_SERVER_AGENTS": "my_agents"}, "module:attribute"),
        ({"AGENT_SERVER_CORS_ORIGINS": "https://a.example/"}, "final slash"),
    ],
)
def test_a_setting_that_cannot_work_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], needed: str
) -> None:
    (line,) = refusal(monkeypatch, **environment)
    assert needed in line


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_authentication(host: str) -> None:
    assert Settings(host=host).host == host


def test_the_table_has_a_line_for_every_setting() -> None:
    lines = table().splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == [variable(field) for field in Settings.model_fields]
    assert all(field.description for field in Settings.model_fields.values())
