"""MCP servers as toolsets of an agent: ``mcp(command=…)`` speaks stdio to a process of its own, ``mcp(url=…)``
streamable HTTP.

A server never fails a run. One that is down has the tools it had when it was last seen (a call of one is a failed
tool), or none if this process has not seen it yet; every step and every call tries it again, at most every
``RETRY_AFTER_S``. One connection is shared by all runs and closed with the registry. Tools go through the same
runner as any other: at most once, a timeout, approvals by name. A call is never sent twice, not even when the
connection breaks under it.

Outputs: the structured content when there is any, else the texts, those of resources too, as one text; images, audio
and other resources are named in it, not carried. The client library is imported with the first declaration.
"""

import asyncio
import importlib
import re
import shlex
import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from app.agent.kept import Kept, Unavailable
from app.agent.tool_run import ToolError
from app.agent.tools import NAME, Tool, ToolContext
from app.log import get_logger
from app.tracing import outgoing

log = get_logger(__name__)

RETRY_AFTER_S = 5.0
LISTED_FOR_S = 300.0
"""How long a list of tools is believed before the server is asked again."""

Names = Collection[str] | Literal["*"]


def mcp(
    *,
    command: str | Sequence[str] | None = None,
    url: str | None = None,
    prefix: str = "",
    needs_approval: Names = (),
    only: Collection[str] | None = None,
    retry_safe: Names = (),
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
    deadline_s: float | None = None,
    connect_timeout_s: float = 10.0,
) -> "McpServer":
    """The tools of an MCP server, for ``Agent(toolsets=[…])``.

    ``command`` is run without a shell, with the default variables of the protocol and ``env``; ``headers`` go with
    each HTTP request. The model sees each tool as ``prefix`` + its name. ``needs_approval``, ``retry_safe`` and
    ``only`` name tools as the server calls them (``"*"``: all). ``timeout_s`` bounds a call, ``deadline_s`` the wait
    for an approval, ``connect_timeout_s`` the start of the server and the listing of its tools.

    Raises ``ValueError`` unless exactly one of ``command`` and ``url`` is given, and for a prefix that no tool's
    name may have."""
    if (command is None) == (url is None):
        raise ValueError("mcp: give either command= or url=")
    if prefix and not NAME.fullmatch(prefix):
        raise ValueError(f"mcp: a prefix is letters, digits, _ or -, not {prefix!r}")
    words = shlex.split(command) if isinstance(command, str) else list(command or ())
    if command is not None and not words:
        raise ValueError("mcp: the command is empty")
    # Now and not at the first call, where it would hold every stream of the process up for seconds.
    importlib.import_module("fastmcp.client")
    return McpServer(
        name=url or words[0],
        connect=lambda: _connected(words, url, dict(env or {}), dict(headers or {})),
        prefix=prefix,
        needs_approval=needs_approval,
        only=only,
        retry_safe=retry_safe,
        timeout_s=timeout_s,
        deadline_s=deadline_s,
        connect_timeout_s=connect_timeout_s,
    )


class McpServer:
    """A toolset; see ``mcp``."""

    def __init__(
        self,
        *,
        name: str,
        connect: Any,
        prefix: str,
        needs_approval: Names,
        only: Collection[str] | None,
        retry_safe: Names,
        timeout_s: float,
        deadline_s: float | None,
        connect_timeout_s: float,
    ) -> None:
        self._name = name
        self._prefix = prefix
        self._needs_approval = needs_approval
        self._only = only
        self._retry_safe = retry_safe
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._connect_timeout_s = connect_timeout_s
        self._client: Kept[Any] = Kept(
            f"mcp {name}", connect, open_timeout_s=connect_timeout_s, retry_after_s=RETRY_AFTER_S
        )
        self._tools: list[Tool] = []
        self._seen: tuple[Any, float] | None = None  # the client that was asked for them, and when

    async def tools(self) -> Sequence[Tool]:
        try:
            client = await self._client.get()
            if self._seen is None or self._seen[0] is not client or time.monotonic() > self._seen[1]:
                await self._list(client)
        except Unavailable:
            pass  # said by the one who tried
        return self._tools

    def may_have(self, name: str) -> bool:
        return name.startswith(self._prefix)

    async def aclose(self) -> None:
        """Ends the connection, and the process of a command."""
        await self._client.aclose()

    async def _list(self, client: Any) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                listed = await client.list_tools()
        except Exception as error:
            log.warning("mcp.not_listed", server=self._name, error=type(error).__name__, exc_info=error)
            self._client.drop(client)
            return
        self._seen = (client, time.monotonic() + LISTED_FOR_S)
        self._tools = self._distinct([made for each in listed if (made := self._tool(each)) is not None])
        unknown = set(self._needs_approval) - {"*", *(each.name for each in listed)}
        if unknown:
            log.warning("mcp.approval_of_unknown_tool", server=self._name, tools=sorted(unknown))

    def _distinct(self, made: Sequence[tuple[str, Tool]]) -> list[Tool]:
        """Two names may become one: it stands for the tool that is called so, and the other one is left out, so that no
        rule by name is applied to a tool that it does not name."""
        own = {tool.name for name, tool in made if self._prefix + name == tool.name}
        kept: dict[str, Tool] = {}
        for name, tool in made:
            if tool.name in kept or (tool.name in own and self._prefix + name != tool.name):
                why = f"another one is called {tool.name}"
                log.warning("mcp.tool_left_out", server=self._name, tool=name, why=why)
            else:
                kept[tool.name] = tool
        return list(kept.values())

    def _tool(self, listed: Any) -> tuple[str, Tool] | None:
        name: str = self._prefix + re.sub(r"[^A-Za-z0-9_-]", "_", listed.name)
        if self._only is not None and listed.name not in self._only:
            return None

        async def run(_: ToolContext, arguments: dict[str, Any]) -> Any:
            return await self._call(listed.name, arguments)

        try:
            return listed.name, Tool(
                name,
                listed.description or "",
                {"type": "object", **listed.input_schema},
                needs_approval=_named(listed.name, self._needs_approval),
                retry_safe=_named(listed.name, self._retry_safe),
                timeout_s=self._timeout_s,
                deadline_s=self._deadline_s,
                run=run,
            )
        except ValueError as error:
            log.warning("mcp.tool_left_out", server=self._name, tool=listed.name, why=str(error))
            return None

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        try:
            client = await self._client.get()
        except Unavailable as error:
            raise ToolError("The server of this tool cannot be reached.") from error
        from fastmcp.exceptions import McpError

        try:
            result = await client.call_tool_mcp(name, arguments)
        except McpError as error:
            if _is_connection_lost(error):
                self._client.drop(client)
                raise ToolError("The server of this tool went away.") from error
            raise ToolError("The server of this tool refused the call.") from error
        except (OSError, RuntimeError) as error:
            self._client.drop(client)
            raise ToolError("The server of this tool went away.") from error
        if result.is_error:
            raise ToolError(_text(result.content) or "The tool failed.")
        return _output(result)


def _named(name: str, names: Names) -> bool:
    return names == "*" or name in names


def _is_connection_lost(error: Any) -> bool:
    from mcp_types import CONNECTION_CLOSED

    return error.error.code == CONNECTION_CLOSED


def _output(result: Any) -> Any:
    structured = result.structured_content
    if structured is None:
        return _text(result.content)
    fields = cast("dict[str, Any]", structured) if isinstance(structured, dict) else {}
    # A result that is not an object is wrapped for the older versions of the protocol.
    return fields["result"] if fields.keys() == {"result"} else cast("Any", structured)


def _text(content: Sequence[Any]) -> str:
    return "\n".join(map(_said, content))


def _said(block: Any) -> str:
    if block.type == "text":
        return block.text
    resource = getattr(block, "resource", block)
    where = f" {uri}" if (uri := getattr(resource, "uri", None)) else ""
    return getattr(resource, "text", None) or f"[{block.type}{where}, not carried]"


@asynccontextmanager
async def _connected(
    words: Sequence[str], url: str | None, env: dict[str, str], headers: dict[str, str]
) -> AsyncGenerator[Any]:
    from fastmcp.client import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    transport = (
        StreamableHttpTransport(url, headers=headers, httpx_client_factory=_http_client)
        if url is not None
        else StdioTransport(words[0], list(words[1:]), env=env or None, keep_alive=False)
    )
    async with Client(cast("Any", transport)) as client:
        yield client


def _http_client(headers: Any = None, timeout: Any = None, auth: Any = None, **_: Any) -> Any:
    """As the library's own one, but each post carries the trace of whoever makes the call."""
    import httpx2

    patience = timeout or httpx2.Timeout(30.0, read=300.0)  # a server may hold a stream open
    return httpx2.AsyncClient(
        headers=headers, auth=auth, timeout=patience, event_hooks={"request": [_trace_post]}
    )


async def _trace_post(request: Any) -> None:
    if request.method == "POST":  # the stream on which a server speaks by itself is nobody's call
        for name, value in outgoing().items():
            request.headers.setdefault(name, value)
