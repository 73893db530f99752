"""What is counted: one registry for each application, filled by tiny calls where the facts happen.

Times are seconds. Labels have few values: routes as they are declared, the names of agents and tools, codes. Never a session, an owner
or anything that a client wrote.
"""

import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    generate_latest,
    start_http_server,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_REQUEST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_WORK = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

_PARTS = ("fastapi", "pydantic-ai-slim", "asyncpg")


class Metrics:
    """The registry of one application. Every name begins with ``agent_server_``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"agent_server_{name}", about, labels, registry=self.registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"agent_server_{name}", about, labels, buckets=buckets, registry=self.registry)

        self.requests = counter(
            "requests", "Requests by route, status and error code.", "method", "route", "status", "code"
        )
        self.request_seconds = histogram(
            "request_seconds",
            "From a request to the end of its answer (streams: to their end).",
            _REQUEST,
            "route",
        )
        self.first_frame_seconds = histogram(
            "first_frame_seconds", "From POST /chat to the first frame with content of its run.", _REQUEST
        )
        self.runs_ended = counter(
            "runs_ended",
            "Runs that left this replica, by how: their state, or `handed_over`.",
            "agent",
            "end",
        )
        self.run_seconds = histogram(
            "run_seconds", "A run on this replica, from its claim to its end.", _WORK, "agent"
        )
        self.run_failures = counter("run_failures", "Failed runs by error code.", "code")
        self.step_seconds = histogram(
            "step_seconds", "One model request, with its repeats.", _WORK, "agent", "outcome"
        )
        self.tokens = counter("tokens", "Tokens as the provider counts them.", "agent", "kind")
        self.tool_seconds = histogram("tool_seconds", "One run of a server tool.", _WORK, "tool", "outcome")
        self.leases_lost = counter("leases_lost", "Runs that another owner took, or whose lease lapsed.")
        self.takeovers = counter("takeovers", "Runs taken over from an owner that fell silent.")
        self.frame_batch_seconds = histogram(
            "frame_batch_seconds", "One batch of frames and bells, committed to the log.", _FAST
        )
        self.frames_written = counter("frames_written", "Frames written to the log.")
        self.rate_limited = counter("rate_limited", "Requests refused by a limit, by limit.", "limit")
        self.waiting_runs = Gauge(
            "agent_server_waiting_runs",
            "Runs that wait unclaimed for a slot, on all replicas together.",
            registry=self.registry,
        )
        Info("agent_server_build", "Versions.", registry=self.registry).info(_build())

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """A gauge ``agent_server_<name>`` that asks ``value`` when it is read, perhaps from another thread."""
        Gauge(f"agent_server_{name}", about, registry=self.registry).set_function(value)

    def refused(self, limit: str) -> None:
        """A request ran into this limit of its owner's."""
        self.rate_limited.labels(limit).inc()

    def batch(self, seconds: float, frames: int) -> None:
        """One batch of the frame log was committed."""
        self.frame_batch_seconds.observe(seconds)
        self.frames_written.inc(frames)

    def render(self) -> bytes:
        """Prometheus's text format; its media type is ``CONTENT_TYPE_LATEST``."""
        return generate_latest(self.registry)

    def serve(self, host: str, port: int) -> Callable[[], None]:
        """Serves ``GET /metrics`` on a port of its own, in a thread, so that it answers while the event loop does not.

        Returns what closes it. Raises ``OSError`` for a port that cannot be had."""
        server, thread = start_http_server(port, host, self.registry)

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join(timeout=5)

        return close


def _build() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for part in _PARTS:
        try:
            found[part.replace("-", "_")] = version(part)
        except PackageNotFoundError:
            continue
    return found
