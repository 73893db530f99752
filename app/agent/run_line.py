"""The canonical line of a run as it leaves this replica, and what is counted of it."""

from app.agent.response import summed
from app.agent.supervisor import RunEnd
from app.log import get_logger
from app.metrics import Metrics

log = get_logger("app.run")


def tell_run_ended(metrics: Metrics, end: RunEnd) -> None:
    """Writes the line ``run.ended`` and counts the run."""
    root = end.tree.root
    how = str(end.state) if end.state is not None else "handed_over"
    metrics.runs_ended.labels(root.agent, how).inc()
    metrics.run_seconds.labels(root.agent).observe(end.seconds)
    log.info(
        "run.ended",
        run_id=str(end.run_id),
        session=end.tree.session.chat_id,
        agent=root.agent,
        state=how,
        steps=root.step,
        calls=len(end.tree.calls),
        children=len(end.tree.children),
        usage=summed(run.usage for run in end.tree.runs),
        ms=round(end.seconds * 1000, 1),
    )
