"""Forty people use it through nginx while replicas are killed and drained and Postgres goes away and comes back."""

import os
import random
import sys
from pathlib import Path

import pytest

from tests.acceptance import monkey

SECONDS = float(os.environ.get("MONKEY_SECONDS", "25"))


@pytest.mark.timeout(SECONDS + 180)
async def test_whatever_happens_nothing_is_lost_nothing_runs_twice_and_no_session_is_stuck(tmp_path: Path):
    seed = os.environ.get("MONKEY_SEED") or f"{random.SystemRandom().randrange(10**6):06}"
    sys.stdout.write(f"MONKEY_SEED={seed}\n")
    report = await monkey.run(seed, tmp_path, sessions=40, seconds=SECONDS)
    sys.stdout.write(report.table() + "\n")
    assert report.faults == [], f"MONKEY_SEED={seed}"
    assert report.turns >= 40 * 2
    assert report.did
