"""The caller's trace goes on at the provider: W3C headers with each request of a model of pydantic-ai."""

from collections.abc import Mapping
from typing import Any

from app.tracing import outgoing


def traced(settings: Mapping[str, Any], model: object) -> dict[str, Any]:
    """``settings`` with the current trace among its headers; as they are when there is none, or the model takes no headers of a
    request's own. A header that the settings have already stays."""
    takes_them = "extra_headers" not in getattr(model, "unsupported_settings", ())
    headers = outgoing() if takes_them else {}
    if not headers:
        return dict(settings)
    return {**settings, "extra_headers": {**headers, **settings.get("extra_headers", {})}}
