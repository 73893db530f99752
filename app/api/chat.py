"""``POST /chat``: the one entry of a stock client."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.deps import Services, note_session, open_stream, owner_of, read_body, services
from app.api.documented import COMMON, STREAM, WITH_BODY, errors
from app.api.middleware import noted
from app.api.request_headers import headers_for_agents
from app.api.sse_response import SseResponse
from app.api.wire import read_chat, read_object, session_id_in
from app.clock import monotonic
from app.domain import frames
from app.domain.frames import Chunk
from app.errors import Code
from app.sessions.chat import Asked
from app.sessions.plans import Attach, HarmlessStep, Plan
from app.streaming.encode import harmless_step
from app.streaming.sse import events, whole

router = APIRouter(tags=["chat"])

_OPENINGS = frozenset({"start", "start-step", "data-resume-rejected"})

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["id", "messages"],
                    "properties": {
                        "id": {"type": "string", "minLength": 1, "maxLength": 256},
                        "sessionId": {"type": "string", "description": "Wins over `id`."},
                        "messages": {
                            "type": "array",
                            "items": {"type": "object"},
                            "description": "UI messages.",
                        },
                        "message": {
                            "type": "object",
                            "description": "The last message alone, in place of `messages`.",
                        },
                        "trigger": {"enum": ["submit-message", "regenerate-message"]},
                        "messageId": {"type": "string"},
                        "agent": {"type": "string", "description": "The agent of a new session."},
                    },
                }
            }
        },
    }
}


@router.post(
    "/chat",
    summary="Send a message, or the answers of client tools and approvals",
    openapi_extra=_BODY,
    response_class=Response,
    responses=STREAM
    | errors(
        *COMMON,
        *WITH_BODY,
        Code.STATE_SESSION_NOT_FOUND,
        Code.STATE_NOT_RESUMABLE,
        Code.STATE_RUN_ACTIVE,
        Code.STATE_SIZE_EXCEEDED,
        Code.FRAMEWORK_NOT_SUPPORTED,
        Code.FRAMEWORK_DRAINING,
        Code.TRANSPORT_STREAM_DROP,
    ),
)
async def post_chat(request: Request) -> Response:
    body = await read_body(request)
    read_at = monotonic()
    fields = read_object(body)
    session_id = note_session(request, session_id_in(fields))
    owner = await owner_of(request)
    use = services(request)
    use.body.check(fields)
    chat = read_chat(fields)
    open_stream(request, owner)
    # A turn keeps the headers it began with, so those of an answer are not read.
    headers = headers_for_agents(request, use.request_headers) if chat.turn.user is not None else {}
    plan = await use.chat.post(Asked(owner, session_id, chat.turn, chat.agent, chat.request, headers))
    return await answer(request, use, plan, key=(owner, session_id), read_at=read_at)


async def answer(
    request: Request, use: Services, plan: Plan, *, key: tuple[str, str], read_at: float
) -> Response:
    """Renders a plan: A or a whole message as a stream, B as a harmless step."""
    if plan.continuation is not None:
        noted(request.scope).facts["continuation"] = str(plan.continuation)
    if isinstance(plan, Attach):
        return await attached(request, use, plan)
    return _harmless(use, plan, key=key, read_at=read_at)


async def attached(request: Request, use: Services, plan: Attach) -> SseResponse:
    """The stream of a run. Raises ``transport_stream_drop`` before the status line when its frames cannot be opened."""
    noted(request.scope).facts["run"] = str(plan.run_id)
    stream = await use.tail.open(plan)
    if request.method == "POST":
        stream = _timed(
            stream, lambda: use.metrics.first_frame_seconds.observe(monotonic() - noted(request.scope).began)
        )

    async def on_cut() -> None:
        await use.tail.was_cut(plan.run_id)

    return SseResponse(events(stream), headers={"x-run-id": str(plan.run_id)}, on_cut=on_cut)


async def _timed(
    stream: AsyncGenerator[list[Chunk] | None, None], on_content: Callable[[], None]
) -> AsyncGenerator[list[Chunk] | None, None]:
    """The same stream; ``on_content`` is told of its first frame with content."""
    waiting = True
    try:
        async for chunks in stream:
            if waiting and chunks and any(chunk["type"] not in _OPENINGS for chunk in chunks):
                waiting = False
                on_content()
            yield chunks
    finally:
        await stream.aclose()


def _harmless(use: Services, plan: HarmlessStep, *, key: tuple[str, str], read_at: float) -> SseResponse:
    if plan.fingerprint is not None:
        loop = ("\n".join(key), plan.fingerprint)
        use.breaker.check(loop, read_at=read_at)
        use.breaker.sent(loop, read_at=read_at, sent_at=monotonic())
    aside = [frames.resume_rejected(call_id, reason) for call_id, reason in plan.rejected]
    aside += [frames.output_elsewhere(call_id) for call_id in plan.elsewhere]
    return SseResponse(whole(harmless_step(plan.message_id, aside)), headers={})
