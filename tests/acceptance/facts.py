"""What must hold after whatever happened: in the rows, in the outbox, in the logs."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from tests.acceptance.postgres import Postgres
from tests.acceptance.replica import Replica


def outbox(file: Path, chat_id: str | None = None) -> Counter[str]:
    """How often each call of a chat (of all of them) took effect: call id → lines."""
    if not file.exists():
        return Counter()
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    return Counter(
        line["callId"] if chat_id else f"{line['sessionId']} {line['callId']}"
        for line in lines
        if chat_id is None or line["sessionId"] == chat_id
    )


async def history(postgres: Postgres, chat_id: str) -> list[dict[str, Any]]:
    """What the next model request of a chat is sent."""
    rows = await postgres.fetch(
        "select h.role, h.body from history h join session s on s.id = h.session_id "
        "where s.chat_id = $1 order by h.position",
        chat_id,
    )
    return [{"role": row["role"], "body": _sent(_json(row["body"]))} for row in rows]


def _sent(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without what stands in it for the books alone, which an earlier release may not keep."""
    return {key: value for key, value in entry.items() if key != "usage"}


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str | bytes) else value


_MINTED = re.compile(r"(apr_|appr_|approval[-_])?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}[\w.~-]*")


def without_minted_ids(value: Any) -> Any:
    """A snapshot or history in which every id that is made here is ``*``, so that two chats can be compared."""
    if isinstance(value, dict):
        hidden = {"approvalId", "createdAt", "updatedAt", "usage"}
        return {
            key: "*" if key in hidden or _is_minted(key, item) else without_minted_ids(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [without_minted_ids(item) for item in value]
    return value


def _is_minted(key: str, item: Any) -> bool:
    return key == "id" and isinstance(item, str) and (_MINTED.search(item) is not None or "chat-" in item)


async def owner_of(postgres: Postgres, run_id: str, replicas: Sequence[Replica]) -> Replica:
    """The replica whose lease holds the run."""
    name = await postgres.value("select lease_owner from run where id = $1::uuid", UUID(run_id))
    [owner] = [r for r in replicas if r.said("server.started")[-1]["replica"] == name]
    return owner


async def takeovers(postgres: Postgres, chat_id: str) -> int:
    """What the chat's runs were charged for owners that vanished."""
    query = "select sum(attempts)::int from run join session s on s.id = session_id where chat_id = $1"
    return await postgres.value(query, chat_id)


async def live_runs(postgres: Postgres) -> int:
    return await postgres.value("select count(*) from run where state in ('running', 'suspended')")


async def faults_in_histories(postgres: Postgres) -> list[str]:
    """What is wrong with what the models are sent, with no run live: each call has exactly one result, directly after it, and a
    client's stored output is that result."""
    outputs = {
        (row["session_id"], row["call_id"]): _json(row["answer"])["output"]
        for row in await postgres.fetch(
            "select c.session_id, c.call_id, c.answer from call c join run r on r.id = c.run_id "
            "where c.kind = 'client' and c.answer is not null and (r.parent_run is null or r.state = 'completed')"
        )
        if "output" in _json(row["answer"])
    }
    rows = await postgres.fetch(
        "select h.session_id, h.body, case when h.child then h.run_id end as child_run from history h "
        "join run r on r.id = h.run_id where h.cut_at is null and (not h.child or r.state = 'completed') "
        "order by h.session_id, child_run, h.position"
    )
    found: list[str] = []
    told: Counter[tuple[Any, str]] = Counter()
    for (session, _), entries in groupby(rows, key=lambda row: (row["session_id"], row["child_run"])):
        expected: list[str] = []
        for entry in [*(_json(row["body"]) for row in entries), {"role": "end"}]:
            results = entry.get("results", [])
            if [result["id"] for result in results] != expected:
                found.append(f"session {session}: calls {expected}, results {results}")
            made = [part["id"] for part in entry.get("parts", []) if part["type"] == "call"]
            expected = made if entry["role"] == "assistant" else []
            for result in results:
                key = (session, result["id"])
                told[key] += 1
                if result["outcome"] == "ok" and key in outputs and result["value"] != outputs[key]:
                    found.append(
                        f"session {session}: {key[1]} was answered {outputs[key]}, told {result['value']}"
                    )
    found += [f"session {key[0]}: {key[1]} has {told[key]} results" for key in outputs if told[key] != 1]
    return found


# Their request's own line, or the answer that names the call, has the code.
_BESIDE_THEIR_REQUEST = {
    "handleResumePath: submit failed (its answer was not stored)",
    "handleChatStream.reconcileSession: reconcile failed (permanent)",
}


def faults_in_logs(replicas: Iterable[Replica]) -> list[str]:
    """Failed requests without a code, tracebacks, and lines that are no line of ours."""
    found: list[str] = []
    for replica in replicas:
        for line in replica.lines():
            if "raw" in line:
                found.append(f"{replica.name}: {line['raw'][:300]}")
            elif _failed_without_a_code(line):
                found.append(f"{replica.name}: {json.dumps(line)[:1500]}")
    return found


def _failed_without_a_code(line: dict[str, Any]) -> bool:
    if line.get("event") == "request.ended":
        return line["status"] >= 400 and not line.get("code") and not line["route"].startswith("/health")
    return (
        line.get("level") == "error" and "code" not in line and line.get("event") not in _BESIDE_THEIR_REQUEST
    )


def took_effect_twice(file: Path) -> Sequence[str]:
    return [call for call, times in outbox(file).items() if times > 1]
