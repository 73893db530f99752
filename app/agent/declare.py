"""Everything that a module of agents imports; ``AGENT_SERVER_AGENTS`` names such a module.

::

    @tool
    def lookup_order(number: str, context: ToolContext) -> dict[str, str]:
        \"\"\"Find an order of this customer.\"\"\"
        return orders.of(context.owner)[number]

    support = Agent("support", "Help with orders.", model("openai:gpt-5"), [lookup_order], Limits(max_steps=8))
"""

from app.agent.context import RequestContext, ToolContext
from app.agent.declaration import Agent, Limits
from app.agent.mcp_servers import mcp
from app.agent.models import model
from app.agent.own import own
from app.agent.tools import ApprovalRequired, CallDeferred, Tool, ToolError, client_tool, subagent, tool

__all__ = [
    "Agent",
    "ApprovalRequired",
    "CallDeferred",
    "Limits",
    "RequestContext",
    "Tool",
    "ToolContext",
    "ToolError",
    "client_tool",
    "mcp",
    "model",
    "own",
    "subagent",
    "tool",
]
