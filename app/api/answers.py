"""``POST /chat/{id}/answers`` and ``POST /chat/{id}/stop``."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.auth import Scope
from app.api.deps import note_path_session, owner_of, read_body, read_optional_body, services
from app.api.documented import COMMON, WITH_BODY, errors
from app.api.history import typed
from app.api.json_response import OrjsonResponse
from app.api.wire import read_answers, read_object, read_stop
from app.errors import Code

router = APIRouter(tags=["answers"])

_ANSWERS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["answers"],
                    "properties": {
                        "answers": {
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "type": "object",
                                "required": ["toolCallId"],
                                "properties": {
                                    "toolCallId": {"type": "string"},
                                    "output": {},
                                    "errorText": {"type": "string"},
                                    "approvalId": {"type": "string"},
                                    "approved": {"type": "boolean"},
                                    "reason": {"type": "string"},
                                },
                            },
                        }
                    },
                }
            }
        },
    }
}
_STOP: dict[str, Any] = {
    "requestBody": {
        "content": {
            "application/json": {
                "schema": {"type": "object", "properties": {"runId": {"type": "string", "format": "uuid"}}}
            }
        }
    }
}


@router.post(
    "/chat/{chat_id:path}/answers",
    summary="Answer pending calls from elsewhere: another app, a webhook, an approver",
    openapi_extra=_ANSWERS,
    responses=errors(
        *COMMON, *WITH_BODY, Code.STATE_SESSION_NOT_FOUND, Code.STATE_NOT_RESUMABLE, Code.STATE_SIZE_EXCEEDED
    ),
)
async def answers(request: Request, chat_id: str) -> Response:
    session_id = note_path_session(request, chat_id)
    body = await read_body(request)
    owner = await owner_of(request, Scope.ANSWERS)
    fields = read_object(body)
    services(request).body.check(fields)
    given = read_answers(fields)
    return OrjsonResponse(await services(request).elsewhere.answer(owner, session_id, given))


@router.post(
    "/chat/{chat_id:path}/stop",
    summary="Stop the live run (idempotent); with `runId` only that run",
    openapi_extra=_STOP,
    responses=errors(*COMMON, *WITH_BODY, Code.STATE_SESSION_NOT_FOUND),
)
async def stop(request: Request, chat_id: str) -> Response:
    session_id = note_path_session(request, chat_id)
    body = await read_optional_body(request)
    owner = await owner_of(request)
    run_id = read_stop(read_object(body))
    return OrjsonResponse(await typed(services(request).stop.stop(owner, session_id, run_id)))
