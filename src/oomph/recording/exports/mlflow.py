"""MLflow: metrics over steps, the fingerprint as parameters, the outcome as the run's status. By the tracking client
alone, so that nothing of the script's own MLflow is changed."""

from __future__ import annotations

import os
import re
from typing import Any

from oomph.errors import UsageError
from oomph.evidence.run.data import RunData
from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Run, StepRecord
from oomph.recording.exports.finished import play

#: Metrics of one request to the server, and parameters (the server's limits are 1,000 and 100).
_BATCH, _PARAMETERS = 500, 100
#: Longest value of a parameter that older servers take.
_LONGEST = 500
_ODD = re.compile(r"[^\w./ :-]")
#: Stores for which mlflow-skinny lacks the libraries.
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_EXPERIMENT = "oomph"
_STATUS = {"completed": "FINISHED", "interrupted": "KILLED", "killed": "KILLED"}


def _client(uri: str) -> Any:
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise UsageError("mlflow: not installed: pip install 'oomph[mlflow]'") from None
    try:
        return MlflowClient(tracking_uri=uri or None)
    except Exception as error:  # noqa: BLE001 - stores raise what their libraries raise
        raise UsageError(f"mlflow:{uri}: {_said(error, uri)}") from None


class Mlflow:
    """A listener that logs rank 0 (of a whole run: each rank in turn, into one MLflow run). With a URI, its own run
    in the experiment that MLFLOW_EXPERIMENT_NAME names, else "oomph"; without, the run that the script has active."""

    def __init__(self, uri: str, *, every_rank: bool = False) -> None:
        self._uri = uri
        self._client = _client(uri)
        self._every_rank = every_rank
        self.run_id = ""
        self._own = False
        self._rank = 0
        self._waiting: list[Any] = []

    def begin(self, run: Run, header: Header) -> None:
        """Finds or makes MLflow's run."""
        self._rank = header.rank
        if not self.run_id and self._logs:
            self.run_id, self._own = self._active(), False
            if not self.run_id:
                self.run_id, self._own = self._made(run), True
        if self._logs and header.capacity_bytes is not None:
            self._put("capacity_bytes", header.capacity_bytes, header.time, 0)

    def phase(self, record: PhaseRecord) -> None:
        """Peaks of a phase."""
        counters, name = record.counters, record.phase.value
        peak = max(counters.peak_allocated_bytes, counters.allocated_bytes)
        self._put(f"{name}/peak_allocated_bytes", peak, record.time, record.step)
        reserved = max(counters.peak_reserved_bytes, counters.reserved_bytes)
        self._put(f"{name}/peak_reserved_bytes", reserved, record.time, record.step)
        self._put("device_free_bytes", counters.free_bytes, record.time, record.step)
        self._put("other_processes_bytes", counters.other_processes_bytes, record.time, record.step)
        if record.host is not None:
            self._put("host_rss_bytes", record.host.rss_bytes, record.time, record.step)

    def step(self, record: StepRecord) -> None:
        """What is left after a step."""
        self._put("step/allocated_bytes", record.counters.allocated_bytes, record.time, record.step)
        self._put("step/seconds", record.seconds, record.time, record.step)
        self._put("step/retries", record.counters.retries, record.time, record.step)

    def note(self, record: Note) -> None:
        """A tag with what was noticed."""
        if self.run_id and self._logs:
            self._client.set_tag(self.run_id, f"oomph.note.{_name(record.code)}", record.text[:_LONGEST])

    def oom(self, record: OomRecord) -> None:
        """The request that failed; sent at once."""
        self._put(
            f"oom/{record.phase.value}/request_bytes", record.request_bytes or 0, record.time, record.step
        )
        self._send()

    def end(self, record: End) -> None:
        """Sends what is left; a run of its own is closed by the last rank that is logged."""
        self._send()
        if self.run_id and self._logs and not self._every_rank:
            self.finish(record.outcome, record.time)

    def finish(self, outcome: str, time: float | None = None) -> None:
        """Closes MLflow's run, where it is not the script's."""
        self._send()
        self._client.set_tag(self.run_id, "oomph.outcome", outcome)
        if self._own:
            end = None if time is None else round(time * 1000)
            self._client.set_terminated(self.run_id, _STATUS.get(outcome, "FAILED"), end)

    def parameters(self, values: dict[str, str]) -> None:
        """Logs the fingerprint."""
        from mlflow.entities import Param

        listed = [Param(_name(key)[:240], value[:_LONGEST] or "-") for key, value in sorted(values.items())]
        for start in range(0, len(listed), _PARAMETERS):
            self._client.log_batch(self.run_id, params=listed[start : start + _PARAMETERS])

    @property
    def _logs(self) -> bool:
        return self._every_rank or self._rank == 0

    def _active(self) -> str:
        """The run that the script has active, where no URI was given."""
        if self._uri:
            return ""
        import mlflow

        active = mlflow.active_run()
        return "" if active is None else str(active.info.run_id)

    def _made(self, run: Run) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT
        experiment = self._client.get_experiment_by_name(name)
        number = self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        tags = {
            "oomph.run": run.id,
            "oomph.host": run.host,
            **{f"oomph.tag.{_name(k)}": v for k, v in run.tags.items()},
        }
        made = self._client.create_run(
            number,
            start_time=round(run.started * 1000) or None,
            tags=tags,
            run_name=run.name or run.id or None,
        )
        return str(made.info.run_id)

    def _put(self, name: str, value: float | None, time: float, step: int) -> None:
        if value is None or not self._logs or not self.run_id:
            return
        from mlflow.entities import Metric

        self._waiting.append(
            Metric(f"oomph/rank-{self._rank}/{name}", float(value), round(time * 1000), max(0, step))
        )
        if len(self._waiting) >= _BATCH:
            self._send()

    def _send(self) -> None:
        if self._waiting and self.run_id:
            waiting, self._waiting = self._waiting, []
            self._client.log_batch(self.run_id, metrics=waiting)


def export_run(data: RunData, uri: str) -> str:
    """Logs a run that is over, with all ranks and the fingerprint; returns MLflow's id of it. Raises UsageError where
    the store cannot be used."""
    logger = Mlflow(uri, every_rank=True)
    try:
        play(data, lambda: logger)
        if not logger.run_id:
            raise UsageError(f"{data.path}: no rank has recorded anything that could be logged")
        for rank in sorted(data.fingerprints)[:1]:
            logger.parameters(data.fingerprints[rank].values)
        logger.finish(data.outcome.value)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        raise UsageError(f"mlflow:{uri}: {_said(error, uri)}") from None
    return logger.run_id


def _name(text: str) -> str:
    """A name that MLflow takes."""
    return _ODD.sub("_", text)


def _said(error: Exception, uri: str) -> str:
    scheme = uri.partition(":")[0].partition("+")[0]
    if scheme in _DATABASES and "unsupported URI" in str(error):
        return f"{scheme}: needs the whole of MLflow, not mlflow-skinny: pip install mlflow"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
