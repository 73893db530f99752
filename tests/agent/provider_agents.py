"""Plain ``pydantic_ai.Agent``s on the model of the server: one whose provider searches the web by itself, one whose output is a
place.
"""

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.native_tools import WebSearchTool

searcher = Agent(name="searcher", capabilities=[NativeTool(WebSearchTool())])


@searcher.tool_plain
def look(at: str) -> str:
    """Looks at something."""
    return f"seen: {at}"


class Place(BaseModel):
    name: str


placer = Agent(name="placer", output_type=Place)
agents = [searcher, placer]
