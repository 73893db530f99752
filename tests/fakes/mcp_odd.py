"""An MCP server, over stdio, of what a careful one would not do: hundreds of tools, names that no model takes, two names that become
one, results of every kind of content, a call that never ends.
"""

import anyio
from mcp.server.mcpserver import MCPServer
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

server = MCPServer("odd", log_level="CRITICAL")
IMAGE = ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")
TEXT = TextContent(type="text", text="a text")


def _tool(number: int) -> str:
    return f"called {number}"


for _number in range(300):
    server.add_tool(lambda n=_number: _tool(n), name=f"many_{_number}", description="One of many.")
for _name in ("dot.ted", "dot_ted", "a.b", "a/b", "x" * 65):
    server.add_tool(lambda n=_name: f"called {n}", name=_name, description="Named oddly.")


@server.tool()
def picture() -> CallToolResult:
    """Gives an image, a text and resources."""
    page = TextResourceContents(uri="notes://1", text="a page", mime_type="text/plain")
    blob = BlobResourceContents(uri="notes://2", blob="AAAA")
    held = [EmbeddedResource(type="resource", resource=each) for each in (page, blob)]
    return CallToolResult(content=[TEXT, IMAGE, *held])


@server.tool()
def structured() -> CallToolResult:
    """Gives structured content."""
    return CallToolResult(content=[TEXT], structured_content={"a": [1, None]})


@server.tool()
def failing() -> CallToolResult:
    """Fails with a text and an image."""
    return CallToolResult(content=[TEXT, IMAGE], is_error=True)


@server.tool()
def nothing() -> CallToolResult:
    """Gives no content at all."""
    return CallToolResult(content=[])


@server.tool()
async def hang() -> str:
    """Never ends."""
    await anyio.sleep_forever()
    return "never"


if __name__ == "__main__":
    server.run()
