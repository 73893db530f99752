"""The headers of a request that its agent is told, as ``AGENT_SERVER_REQUEST_HEADERS`` names them. They are stored with the run."""

from collections.abc import Sequence
from unicodedata import category

from starlette.requests import Request

from app.api.wire import invalid
from app.errors import Code, ServiceError

MAX_BYTES = 8 * 2**10
"""Of all of them together, names and values."""


def headers_for_agents(request: Request, names: Sequence[str]) -> dict[str, str]:
    """Lower-cased name → value; a header that was not sent is left out, one that was sent more than once is joined as HTTP says.

    Raises ``validation_payload_too_large`` over ``MAX_BYTES``, and ``validation_error`` for a control character."""
    found: dict[str, str] = {}
    size = 0
    for name in names:
        sent = [value for key, value in request.headers.raw if key.lower() == name.encode()]
        if not sent:
            continue
        joined = (b"; " if name == "cookie" else b", ").join(sent)
        size += len(name) + len(joined)
        if size > MAX_BYTES:
            raise ServiceError(
                Code.VALIDATION_PAYLOAD_TOO_LARGE, "the headers for the agent are over their limit"
            )
        found[name] = _text(joined)
    return found


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = value.decode("latin-1")
    if any(category(c) == "Cc" and c != "\t" for c in text):
        raise invalid("a header for the agent holds control characters")
    return text
