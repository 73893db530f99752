"""Every setting of the service, read once from the environment into one frozen value.

A variable is `AGENT_SERVER_` and the field's name in capitals; only `DATABASE_URL` has the name that hosts
give it. An empty variable counts as unset. A variable with our prefix that nobody knows is refused, with the
nearest known name: a setting with a typing error must not silently fall back to its default. Durations are
seconds, sizes bytes.

Only `main`, `__main__` and the migrations construct `Settings`; all else is handed the values it needs.
"""

import difflib
import ipaddress
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "AGENT_SERVER_"


class SettingsError(Exception):
    """The environment cannot be used. The message has one line for each fault and holds no secret."""


def _split_commas(value: object) -> object:
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )


def _check_origin(value: str) -> str:
    parts = urlsplit(value)
    if value != "*" and (
        parts.scheme not in {"http", "https"} or value != f"{parts.scheme}://{parts.netloc}"
    ):
        raise ValueError(
            f"{value!r} is not an origin like https://app.example.com (no path, no final slash) nor *"
        )
    return value


def _check_header_name(value: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", value):
        raise ValueError(f"{value!r} is not the name of a header")
    return value.lower()


def _check_postgres_url(value: SecretStr) -> SecretStr:
    scheme, found, rest = value.get_secret_value().partition("://")
    if not found or scheme not in {"postgresql", "postgres", "postgresql+asyncpg"}:
        raise ValueError("should be a URL like postgresql://user:password@host:5432/database")
    hosts = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if not re.fullmatch(r"(?:(?:\[[^\]]*\]|[^\[\]:,]*)(?::\d*)?(?:,|$))*", hosts):
        # refused here: whoever tries to use it quotes it
        raise ValueError(
            "is not a URL: in a user or a password, %2F stands for /, %3F for ?, %23 for #, %40 for @"
        )
    return SecretStr("postgresql://" + rest)


def _check_reference(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value):
        raise ValueError("should be module:attribute, as in my_package.agents:registry")
    return value


def _check_auth(value: str) -> str:
    if value not in {"none", "api_key", "jwt"} and ":" not in value:
        raise ValueError("should be none, api_key, jwt or module:function")
    return _check_reference(value) if ":" in value else value


def _default_outbox(validated: dict[str, Any]) -> Path:
    return validated["data_dir"] / "outbox.jsonl"


def _default_log_format() -> Literal["json", "console"]:
    return "console" if sys.stdout.isatty() else "json"


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
PostgresUrl = Annotated[SecretStr, AfterValidator(_check_postgres_url)]
Reference = Annotated[str, AfterValidator(_check_reference)]
Origin = Annotated[str, AfterValidator(_check_origin)]
HeaderName = Annotated[str, AfterValidator(_check_header_name)]
HeaderNames = Annotated[tuple[HeaderName, ...], NoDecode, BeforeValidator(_split_commas)]
Origins = Annotated[tuple[Origin, ...], NoDecode, BeforeValidator(_split_commas)]


class Settings(BaseSettings):
    """All settings; keyword arguments win over the environment.

    Raises `SettingsError` for an unknown variable of ours or a value that cannot be used.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, populate_by_name=True
    )

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0: a free one.")
    data_dir: Path = Field(
        default=Path(".data"), description="Folder of the embedded Postgres and the outbox."
    )
    outbox: Path = Field(
        default_factory=_default_outbox,
        description="File to which the tools `send_email` and `publish_note` append one JSON line each. "
        "Default: `outbox.jsonl` in the data folder.",
    )

    database_url: PostgresUrl | None = Field(
        default=None,
        validation_alias="DATABASE_URL",
        description="Postgres to use (`postgresql://…`). Unset: an embedded Postgres in the data folder.",
    )
    listen_url: PostgresUrl | None = Field(
        default=None,
        description="A direct connection for LISTEN, for a `DATABASE_URL` that leads to a pooler. "
        "Default: `DATABASE_URL`.",
    )
    pool_size: Count = Field(default=5, description="Database connections of a replica, besides LISTEN's.")

    model: str | None = Field(
        default=None,
        description="A pydantic-ai model name, such as `openai:…`; it makes `assistant` the default agent.",
    )
    agents: Reference | None = Field(
        default=None, description="`module:attribute` of your own registry of agents."
    )
    scripted: bool = Field(
        default=False, description="Obey `script:` user messages. For tests and load only."
    )
    crash_at: str | None = Field(
        default=None,
        pattern=r"^(before|after)-[a-z]+(:[1-9]\d*)?$",
        description="With `AGENT_SERVER_SCRIPTED` only: the process kills itself there, as in `after-result:2`.",
    )
    max_steps: Count = Field(
        default=32, description="Model requests of one run before it fails with `run_limit_exceeded`."
    )

    on_busy: Literal["reject", "interrupt"] = Field(
        default="reject",
        description="A new user message while a run is running: 409, or close that run and start the next.",
    )
    max_running: Count = Field(
        default=100, description="Runs that one replica executes at a time; more wait for a slot anywhere."
    )
    max_waiting: int = Field(
        default=1000, ge=0, description="Waiting runs above which a new one is refused with 429."
    )
    lease_seconds: PositiveSeconds = Field(
        default=30.0,
        description="A run whose replica has been silent for this long is taken over by another.",
    )
    drain_seconds: Seconds = Field(default=10.0, description="Time for live runs to commit at shutdown.")
    frame_tick_ms: float = Field(
        default=20.0,
        gt=0,
        le=1000,
        description="Milliseconds of frames that are written to the database in one batch.",
    )

    completed_tombstone_retention: Seconds = Field(
        default=86_400.0,
        description="How long a finished call is remembered, so that a late answer is recognised.",
    )
    session_retention: PositiveSeconds | None = Field(
        default=None, description="Delete sessions that have been idle for this long. Default: never."
    )

    max_body_bytes: Bytes = Field(default=10 * 2**20, description="Largest request body.")
    max_message_bytes: Bytes = Field(default=4 * 2**20, description="Largest stored message.")
    max_answer_bytes: Bytes = Field(default=2**20, description="Largest answer to one call.")
    max_error_text_bytes: Bytes = Field(default=8 * 2**10, description="Largest error text of one answer.")
    max_messages: Count = Field(default=5000, description="Messages of one request.")
    max_parts: Count = Field(default=5000, description="Parts of one message, and answers of one request.")
    body_timeout_seconds: PositiveSeconds = Field(
        default=30.0, description="Time for a whole request body to arrive; one that trickles in is cut."
    )
    owner_rate: Rate | None = Field(
        default=None,
        description="Requests per second of one owner on one replica, twice as many in a burst. Default: no limit.",
    )
    max_streams_per_owner: Count | None = Field(
        default=None,
        description="Open streams of one owner on one replica. Default: 100; no limit with `none`, where all are one owner.",
    )
    max_live_per_owner: Count | None = Field(
        default=None,
        description="Running and waiting chats of one owner, on all replicas together. Default: no limit.",
    )
    max_sessions_per_owner: Count | None = Field(
        default=None,
        description="Stored chats of one owner; a deleted one makes room at once. Default: no limit.",
    )

    auth: Annotated[str, AfterValidator(_check_auth)] = Field(
        default="none",
        description="Who may call: `none`, `api_key`, `jwt`, or `module:function`, an async function that is "
        "given the headers and the session id and returns the owner, or None for 401.",
    )
    allow_unauthenticated: bool = Field(
        default=False,
        description="Allow `none` on an address that others can reach, as behind a proxy that authenticates.",
    )
    api_keys: SecretStr | None = Field(
        default=None,
        description="For `api_key`: `owner:key,owner:sha256:HEX,…`; sent as `Authorization: Bearer`.",
    )
    api_keys_file: Path | None = Field(
        default=None,
        description="For `api_key`: a file with one such entry a line; a change of it counts at once.",
    )
    jwt_jwks_url: str | None = Field(
        default=None, pattern="^https?://", description="For `jwt`: where the issuer publishes its keys."
    )
    jwt_issuer: str | None = Field(default=None, description="For `jwt`: the required `iss`.")
    jwt_audience: str | None = Field(default=None, description="For `jwt`: the required `aud`.")
    jwt_owner_claim: str = Field(default="sub", min_length=1, description="For `jwt`: the owner's claim.")
    cors_origins: Origins = Field(
        default=(),
        description="Comma-separated origins whose pages may call, or `*`. Default: none but our own.",
    )

    request_headers: HeaderNames = Field(
        default=(),
        description="Comma-separated headers of the request that began a turn, for its agent; stored with the run. Default: none.",
    )

    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Serve `/metrics` here, to everybody who reaches this port, and not among the other routes.",
    )
    playground: bool = Field(default=True, description="Serve the chat page at `/`.")
    log_format: Literal["json", "console"] = Field(
        default_factory=_default_log_format,
        description="`json` or `console`. Default: `console` on a terminal.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings  # no .env file, no secrets folder: one source, the environment

    @model_validator(mode="wrap")
    @classmethod
    def _tell_all_faults(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        faults = _unknown_variables()
        try:
            settings = handler(values)
        except ValidationError as error:
            faults += [
                _line(fault["loc"], fault["msg"])
                for fault in error.errors(include_url=False, include_input=False)
                if fault["type"] != "default_factory_not_called"  # the consequence of another fault
            ]
        else:
            faults += settings._contradictions()
            if not faults:
                return settings
        # `from None`: pydantic's own text would follow in the log and adds nothing
        raise SettingsError("\n".join(faults)) from None

    @property
    def reachable_without_identity(self) -> bool:
        """Everybody who reaches the address may read and write every chat; somebody has allowed that."""
        return self.auth == "none" and not _is_loopback(self.host)

    @property
    def streams_per_owner(self) -> int | None:
        """``max_streams_per_owner`` with its default."""
        return self.max_streams_per_owner or (None if self.auth == "none" else 100)

    def _contradictions(self) -> list[str]:
        faults: list[str] = []
        if self.auth == "api_key" and self.api_keys is None and self.api_keys_file is None:
            faults.append(f"{PREFIX}API_KEYS or {PREFIX}API_KEYS_FILE is needed by {PREFIX}AUTH=api_key")
        if self.auth == "jwt" and self.jwt_jwks_url is None:
            faults.append(f"{PREFIX}JWT_JWKS_URL is needed by {PREFIX}AUTH=jwt")
        if self.crash_at is not None and not self.scripted:
            faults.append(f"{PREFIX}CRASH_AT is for tests: it needs {PREFIX}SCRIPTED=true")
        if self.metrics_port is not None and self.metrics_port == self.port:
            faults.append(f"{PREFIX}METRICS_PORT should be another port than {PREFIX}PORT")
        if self.reachable_without_identity and not self.allow_unauthenticated:
            faults.append(
                f"{PREFIX}HOST={self.host} can be reached by others: choose {PREFIX}AUTH, "
                f"or set {PREFIX}ALLOW_UNAUTHENTICATED=true when a proxy in front authenticates"
            )
        return faults


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def variable(field: str) -> str:
    """The environment variable of a field of `Settings`."""
    alias = Settings.model_fields[field].validation_alias
    return alias if isinstance(alias, str) else PREFIX + field.upper()


def _unknown_variables() -> list[str]:
    known = [variable(field) for field in Settings.model_fields]
    lines: list[str] = []
    for name in sorted(os.environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            bare = name.upper().removeprefix(PREFIX)
            near = [bare] if bare in known else difflib.get_close_matches(name.upper(), known, n=1)
            lines.append(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else ""))
    return lines


def _line(loc: tuple[int | str, ...], message: str) -> str:
    field = str(loc[0]) if loc else ""
    name = variable(field) if field in Settings.model_fields else field
    return f"{name}: {message.removeprefix('Value error, ').removeprefix('Input ')}"


def table() -> str:
    """The settings as a markdown table, for the README: variable, default, meaning."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default_factory or field.default in (None, ()) else f"`{_shown(field.default)}`"
        lines.append(f"| `{variable(name)}` | {default} | {field.description} |")
    return "\n".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
