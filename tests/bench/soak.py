"""``make soak``: two hundred people for three minutes, while replicas and Postgres come and go.

``python -m tests.bench.soak [--sessions N] [--seconds S] [--seed X]``; ends with 1 when something does not hold.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.acceptance import monkey


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", default=f"{random.SystemRandom().randrange(10**6):06}")
    asked = parser.parse_args()
    print(f"seed {asked.seed}: {asked.sessions} sessions, {asked.seconds:.0f} seconds", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        report = asyncio.run(
            monkey.run(asked.seed, Path(folder), sessions=asked.sessions, seconds=asked.seconds)
        )
    print(report.table())
    print(*report.faults[:50], sep="\n")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
