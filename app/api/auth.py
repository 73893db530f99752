"""Who asks, and what may they do? The owner of sessions is the authenticated principal; another owner's session looks like one that
does not exist.

An authenticator gives a ``Principal`` or raises ``auth_required``. Whatever else it raises is answered 503 and logged: nobody is let
in, and nobody is sent away for good, because of a fault on our side.
"""

import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, cast

from app.domain.turn import valid_id
from app.errors import Code, ServiceError

Headers = Mapping[str, str]


class Scope(StrEnum):
    """What a principal may do. ``chat``: its own chats; ``answers``: ``POST …/answers``; ``admin``: the metrics."""

    CHAT = "chat"
    ANSWERS = "answers"
    ADMIN = "admin"


USUAL = frozenset({Scope.CHAT, Scope.ANSWERS})
"""What credentials that name no scopes allow: everything but ``admin``."""


@dataclass(frozen=True, slots=True)
class Principal:
    """``owner``: 1 to 256 characters, no control characters."""

    owner: str
    scopes: frozenset[Scope] = USUAL

    def check(self, scope: Scope) -> None:
        """Raises ``auth_forbidden`` without it."""
        if scope not in self.scopes:
            raise ServiceError(Code.AUTH_FORBIDDEN, f"the scope {scope} is missing")


class Authenticator(Protocol):
    """``session_id``: of a chat route. Raises ``auth_required``, or whatever its own machinery raises."""

    async def __call__(self, headers: Headers, session_id: str | None) -> Principal: ...


class Nobody:
    """``none``: everybody is one and the same owner. Only for a loopback bind, or when it was allowed on purpose."""

    ANYBODY = Principal("local", frozenset(Scope))

    async def __call__(self, headers: Headers, session_id: str | None) -> Principal:
        return self.ANYBODY


class Hook:
    """``module:function``: async, given the headers and the session id; returns the owner, ``(owner, scopes)``, or ``None`` for 401.

    Raises whatever importing it raises, and ``ValueError`` for what is not an async function."""

    def __init__(self, spec: str) -> None:
        module, _, name = spec.partition(":")
        self._hook: Callable[[Headers, str | None], Awaitable[Any]] = getattr(
            importlib.import_module(module), name
        )
        called = getattr(self._hook, "__call__", None)  # noqa: B004  an object may be one too
        if not (inspect.iscoroutinefunction(self._hook) or inspect.iscoroutinefunction(called)):
            raise ValueError(f"{name} is not an async function")

    async def __call__(self, headers: Headers, session_id: str | None) -> Principal:
        found = await self._hook(headers, session_id)
        if not found:
            raise ServiceError(Code.AUTH_REQUIRED, "the hook knows no owner")
        owner, scopes = cast("tuple[Any, Any]", found) if isinstance(found, tuple) else (found, None)
        if not valid_id(owner):
            raise TypeError(
                "the hook's owner is not a text of 1 to 256 characters without control characters"
            )
        return Principal(owner, USUAL if scopes is None else scopes_in(scopes))


def scopes_in(claimed: str | Iterable[str]) -> frozenset[Scope]:
    """Of a scope claim (a text with blanks between the scopes, or a list), the scopes that are ours."""
    names = claimed.split() if isinstance(claimed, str) else claimed
    return frozenset(scope for scope in Scope if scope in set(names))


def bearer(headers: Headers) -> str:
    """The token of ``Authorization: Bearer``. Raises ``auth_required`` when there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ServiceError(Code.AUTH_REQUIRED, "no bearer token")
    return token.strip()
