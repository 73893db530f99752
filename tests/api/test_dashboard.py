"""The dashboard and the alert rules speak of metrics that exist."""

import json
import re
from pathlib import Path

import pytest

from app.metrics import Metrics

FOLDER = Path(__file__).parents[2] / ".container"


def known() -> set[str]:
    metrics = Metrics()
    main = (Path(__file__).parents[2] / "app" / "main.py").read_text()
    for name in re.findall(r'metrics\.watch\("(\w+)"', main):
        metrics.watch(name, "x", lambda: 0)
    found: set[str] = set()
    for family in metrics.registry.collect():
        endings = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_count", "_sum"),
            "info": ("_info",),
        }.get(family.type, ("",))
        found |= {family.name, *(family.name + ending for ending in endings)}
    return found


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "prometheus-alerts.yml"])
def test_every_metric_that_is_spoken_of_exists(name: str):
    text = (FOLDER / name).read_text()
    spoken_of = set(re.findall(r"agent_server_\w+", text))
    assert len(spoken_of) > 8
    assert spoken_of <= known()


def test_the_dashboard_shows_every_metric_there_is():
    panels = json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]
    shown = json.dumps(panels)
    families = {re.sub(r"_(total|bucket|count|sum|info)$", "", name) for name in known()}
    hidden = {name for name in families if name not in shown}
    assert hidden <= {"agent_server_build", "agent_server_run_seconds"}
