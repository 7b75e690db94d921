"""Metrics over HTTP on loopback, by prometheus_client: for a Prometheus, or an agent of one, on the same host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from oomph.errors import UsageError
from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Run, StepRecord
from oomph.recording.exports.metrics import METRICS, Metrics

_ADDRESS = "127.0.0.1"


class PrometheusServer:
    """A listener that answers on 127.0.0.1: rank N of a host on port + N (0: any free port, `port` says which). It
    ends with the rank: what was last asked for is what Prometheus has. Raises UsageError without prometheus_client."""

    def __init__(self, port: int) -> None:
        try:
            import prometheus_client  # noqa: F401 - said at once, not in the midst of the job
        except ImportError:
            raise UsageError(
                "prometheus: HTTP needs prometheus_client: pip install 'oomph[prometheus]'"
            ) from None
        self.port = port
        self.metrics = Metrics()
        self._lock = threading.Lock()
        self._server: Any = None
        self._thread: Any = None

    def begin(self, run: Run, header: Header) -> None:
        """Begins to answer. Raises OSError where the port is taken."""
        with self._lock:
            self.metrics.begin(run, header)
        if self._server is None:
            from prometheus_client import CollectorRegistry, start_http_server

            registry = CollectorRegistry(auto_describe=False)
            registry.register(self)
            wanted = self.port + header.local_rank if self.port else 0
            self._server, self._thread = start_http_server(wanted, addr=_ADDRESS, registry=registry)
            self.port = int(self._server.server_port)

    def phase(self, record: PhaseRecord) -> None:
        """Counted."""
        with self._lock:
            self.metrics.phase(record)

    def step(self, record: StepRecord) -> None:
        """Counted."""
        with self._lock:
            self.metrics.step(record)

    def note(self, record: Note) -> None:
        """Counted."""
        with self._lock:
            self.metrics.note(record)

    def oom(self, record: OomRecord) -> None:
        """Counted."""
        with self._lock:
            self.metrics.oom(record)

    def end(self, record: End) -> None:
        """Answers no more."""
        with self._lock:
            self.metrics.end(record)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(timeout=5)
            self._server = None

    def describe(self) -> list[Any]:
        """Nothing ahead: prometheus_client would otherwise collect once to learn the names."""
        return []

    def collect(self) -> Iterator[Any]:
        """What prometheus_client asks for at each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            samples = dict(self.metrics.samples)
        for name, (kind, about) in METRICS.items():
            mine = [(labels, value) for (known, labels), value in samples.items() if known == name]
            if not mine:
                continue
            names = [label for label, _ in mine[0][0]]
            family: Any = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(
                name, about, labels=names
            )
            for labels, value in mine:
                family.add_metric([text for _, text in labels], value)
            yield family
