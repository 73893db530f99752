"""Many people at once while replicas and Postgres come and go; afterwards, what must hold.

Everything random comes from the seed; what the machine makes of it (which frame is on its way when a replica dies) does not.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.acceptance import facts
from tests.acceptance.nginx import nginx
from tests.acceptance.person import Person
from tests.acceptance.postgres import Postgres, postgres
from tests.acceptance.replica import Replica
from tests.acceptance.scripts import script, text

ACTIONS = ("kill", "kill", "drain", "drain", "restart postgres", "kill postgres")


@dataclass
class Report:
    """``faults`` is empty when everything holds."""

    seed: str
    sessions: int
    seconds: float = 0.0
    turns: int = 0
    calls: int = 0
    effects: int = 0
    takeovers: int = 0
    did: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    runs: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def table(self) -> str:
        rows = [
            ("seed", self.seed),
            ("sessions", self.sessions),
            ("seconds", f"{self.seconds:.0f}"),
            ("turns brought to an end", self.turns),
            ("runs", ", ".join(f"{n} {state}" for state, n in sorted(self.runs.items()))),
            ("tool calls", self.calls),
            ("effects in the outbox", self.effects),
            ("takeovers", self.takeovers),
            ("done to it", ", ".join(f"{n} {what}" for what, n in self.did.most_common())),
            ("answers", ", ".join(f"{n} {what}" for what, n in self.answers.most_common())),
            ("faults", len(self.faults)),
        ]
        return "\n".join(f"{name:24} {value}" for name, value in rows)


class Monkey:
    def __init__(self, seed: str, replicas: list[Replica], pg: Postgres, report: Report) -> None:
        self._random = random.Random(seed)
        self._replicas = replicas
        self._pg = pg
        self._report = report

    async def rage(self, until: float) -> None:
        """One thing after the other; whatever it takes away it brings back."""
        while time.monotonic() < until:
            await asyncio.sleep(self._random.uniform(0.2, 1.0))
            action = self._random.choice(ACTIONS)
            self._report.did[action] += 1
            replica = self._random.choice(self._replicas)
            match action:
                case "kill":
                    replica.kill()
                    await replica.start()
                case "drain":
                    await replica.terminate(signal.SIGTERM, within_s=60)
                    await replica.start()
                case "restart postgres":
                    await self._pg.restart(away_s=self._random.random())
                case _:
                    await self._pg.kill()
                    await self._pg.start()


async def run(seed: str, folder: Path, *, sessions: int, seconds: float, mayhem: bool = True) -> Report:
    """``mayhem=False``: the same people, and nothing happens to anybody."""
    report = Report(seed, sessions)
    async with AsyncExitStack() as stack:
        pg = await stack.enter_async_context(postgres())
        replicas = [Replica(f"replica{n}", folder, pg.url, drain_seconds=2) for n in range(3)]
        for replica in replicas:
            stack.callback(replica.kill)
        await asyncio.gather(*(replica.start() for replica in replicas))
        base = stack.enter_context(nginx(folder, replicas))
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        client = httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits)
        await stack.enter_async_context(client)
        people = [Person(client, base, f"{seed}/{n}") for n in range(sessions)]
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            if mayhem:
                group.create_task(Monkey(seed, replicas, pg, report).rage(began + seconds))
            for person in people:
                group.create_task(person.live(began + seconds))
        await _look(report, people, replicas, pg)
        report.seconds = time.monotonic() - began
        codes = await asyncio.gather(*(replica.terminate() for replica in replicas))
        report.faults += [
            f"a replica ended with {code}" for code in codes if code not in (0, -signal.SIGTERM)
        ]
        report.faults += facts.faults_in_logs(replicas)
    return report


async def _look(report: Report, people: list[Person], replicas: list[Replica], pg: Postgres) -> None:
    """Collects the figures and what does not hold."""
    last = await asyncio.gather(*(person.turn(script(text("Still here."))) for person in people))
    report.faults += [
        f"{shown['id']} does not take a message: {shown['messages'][-1]}"
        for shown in last
        if shown["messages"][-1]["parts"][-1].get("text") != "Still here."
        and shown["run"]["status"] == "completed"
    ]
    for person in people:
        report.turns += person.turns
        report.answers += person.answers
        report.faults += person.faults
    outbox = replicas[0].outbox
    effects = facts.outbox(outbox)
    report.effects = sum(effects.values())
    report.calls = await pg.value("select count(*) from call")
    report.takeovers = sum(len(replica.said("run.taken_over")) for replica in replicas)
    rows = await pg.fetch("select state, count(*) from run where parent_run is null group by state")
    report.runs = {row["state"]: row["count"] for row in rows}
    if live := await facts.live_runs(pg):
        report.faults.append(f"{live} runs are still live")
    report.faults += [f"took effect twice: {call}" for call in facts.took_effect_twice(outbox)]
    report.faults += await facts.faults_in_histories(pg)
