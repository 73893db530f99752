"""Tools that show things on the page: what they are told to, in order."""

from collections.abc import Sequence
from typing import Any

from app.agent.tools import ToolContext


def show_all(context: ToolContext, what: Sequence[dict[str, Any]]) -> None:
    """Each item is ``{"data": name, "value", "id"?, "transient"?}``, ``{"url", "title"?, "id"?}``, ``{"document": title,
    "media_type", "filename"?, "id"?}`` or ``{"emit": value}``."""
    for item in what:
        given = dict(item)
        if "emit" in given:
            context.emit(given["emit"])
        elif "data" in given:
            context.data(given.pop("data"), given.pop("value"), **given)
        elif "url" in given:
            context.source_url(**given)
        else:
            context.source_document(title=given.pop("document"), **given)
