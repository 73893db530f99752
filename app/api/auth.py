"""Who asks? The owner of sessions is the authenticated principal; another owner's session looks like an unknown one."""

import hmac
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from app.errors import Code, ServiceError

Headers = Mapping[str, str]


class Authenticator(Protocol):
    """Gives the owner. Raises ``auth_required``, or whatever its own machinery raises."""

    async def __call__(self, headers: Headers, session_id: str | None) -> str: ...


class Nobody:
    """``none``: everybody is one and the same owner. Only for a loopback bind, or when it was allowed on purpose."""

    OWNER = "local"

    async def __call__(self, headers: Headers, session_id: str | None) -> str:
        return self.OWNER


class ApiKeys:
    """``owner:key`` pairs, a key in plain or as ``sha256:HEX``; sent as ``Authorization: Bearer``. Compared in constant time."""

    def __init__(self, pairs: Sequence[str]) -> None:
        self._hashes: list[tuple[str, bytes]] = []
        for pair in pairs:
            owner, found, key = pair.partition(":")
            if not owner or not found or not key:
                raise ValueError("an API key is written owner:key or owner:sha256:HEX")
            plain = not key.startswith("sha256:")
            digest = sha256(key.encode()).digest() if plain else bytes.fromhex(key.removeprefix("sha256:"))
            if len(digest) != 32:
                raise ValueError("a hashed API key has 64 hex digits")
            self._hashes.append((owner, digest))

    async def __call__(self, headers: Headers, session_id: str | None) -> str:
        sent = sha256(bearer(headers).encode()).digest()
        owners = [owner for owner, digest in self._hashes if hmac.compare_digest(digest, sent)]
        if not owners:
            raise ServiceError(Code.AUTH_REQUIRED, "an unknown API key")
        return owners[0]


class Hook:
    """``module:function``: async, given the headers and the session id; returns the owner, or ``None`` for 401."""

    def __init__(self, spec: str) -> None:
        module, _, name = spec.partition(":")
        self._hook: Callable[[Headers, str | None], Awaitable[str | None]] = getattr(
            importlib.import_module(module), name
        )

    async def __call__(self, headers: Headers, session_id: str | None) -> str:
        owner = await self._hook(headers, session_id)
        if not owner:
            raise ServiceError(Code.AUTH_REQUIRED, "the hook knows no owner")
        return owner


def bearer(headers: Headers) -> str:
    """The token of ``Authorization: Bearer``. Raises ``auth_required`` when there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ServiceError(Code.AUTH_REQUIRED, "no bearer token")
    return token.strip()
