"""Hooks of ``AGENT_SERVER_AUTH=module:function``, for the tests of authentication."""

import asyncio
from collections.abc import Mapping
from typing import Any

seen: list[tuple[str | None, str | None]] = []


async def by_header(headers: Mapping[str, str], session_id: str | None) -> Any:
    """The owner is what the header says; with ``x-scopes`` the scopes too."""
    seen.append((headers.get("x-user"), session_id))
    user, scopes = headers.get("x-user"), headers.get("x-scopes")
    return user if scopes is None or user is None else (user, scopes.split())


async def broken(headers: Mapping[str, str], session_id: str | None) -> Any:
    raise KeyError("a secret of the hook: hunter2-hunter2")


async def lost(headers: Mapping[str, str], session_id: str | None) -> Any:
    raise ConnectionResetError


async def odd(headers: Mapping[str, str], session_id: str | None) -> Any:
    return {"number": 7, "control": "a\x00b", "long": "x" * 257, "pair": ("", ())}[headers["x-odd"]]


async def hangs(headers: Mapping[str, str], session_id: str | None) -> Any:
    await asyncio.Event().wait()
