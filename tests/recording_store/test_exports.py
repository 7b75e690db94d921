"""Exports, read back by the tools that they are for."""

from __future__ import annotations

import urllib.request

import pytest

from oomph.errors import UsageError
from oomph.evidence.run.model import VERSION, End, Header, Note, OomRecord, PhaseRecord, Run, StepRecord
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from oomph.recording.exports import export, listeners
from oomph.recording.exports.http import PrometheusServer
from oomph.recording.exports.textfile import PrometheusFile
from oomph.recording.listeners import Listeners, Silent
from tests.recording_store.fakes import GIB, START, counters, write_run


@pytest.fixture
def run(tmp_path):
    note = Note("neighbour", "a process appeared", START + 20, 20.0)
    return read_run(write_run(tmp_path / "runs", rows=8, fails_at=1, notes=(note,), name='of "mine"\nx\\'))


RUN = Run(VERSION, "r1", START, name="n")
HEADER = Header(VERSION, 3, 4, 1, 9, "host", START, 1.0, device="GPU", capacity_bytes=40 * GIB)
BACKWARD = PhaseRecord(Phase.BACKWARD, 2, START + 5, 6.0, 0.5, counters(3 * GIB, 9 * GIB))


def tell(listener, end: bool = True) -> None:
    """A rank's short life."""
    listener.begin(RUN, HEADER)
    listener.phase(BACKWARD)
    listener.step(StepRecord(2, START + 6, 7.0, 1.0, counters(3 * GIB, 9 * GIB, retries=2)))
    listener.note(Note("neighbour", "x", START + 7, 8.0))
    listener.oom(OomRecord(Phase.EVAL, 2, START + 8, 9.0, "CUDA out of memory.", GIB, counters(GIB, GIB)))
    if end:
        listener.end(End("oom", START + 9, 10.0))


def samples(text: str) -> dict[tuple[str, str, str], float]:
    """(name, rank, phase and step) -> value, as prometheus_client reads the text."""
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (
            each.name,
            each.labels["rank"],
            "/".join(filter(None, (each.labels.get("phase"), each.labels.get("step")))),
        ): (each.value)
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_prometheus_text(run, tmp_path):
    export(run, f"prometheus:{tmp_path / 'x.prom'}")
    text = (tmp_path / "x.prom").read_text()
    found = samples(text)
    # 8 rows keep 8 GiB; 3 GiB are alive in later steps; a backward needs 1 GiB more.
    assert found["oomph_phase_peak_allocated_bytes", "1", "backward/later"] == 12 * GIB
    assert found["oomph_phase_peak_allocated_bytes", "0", "forward/first"] == 9 * GIB
    assert found["oomph_device_capacity_bytes", "0", ""] == 40 * GIB
    assert found["oomph_out_of_memory_total", "1", "backward"] == 1
    assert found["oomph_steps_total", "0", ""] == 1
    assert found["oomph_notes_total", "0", ""] == 1
    assert found["oomph_phase_seconds_total", "0", "forward"] == 0.5
    assert r'name="of \"mine\"\nx\\"' in text
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x.prom"]


def test_prometheus_while_it_runs(tmp_path):
    clock = iter(float(number) for number in range(0, 1000, 2))
    listener = PrometheusFile(str(tmp_path / "out" / "job.prom"), clock=lambda: next(clock))
    tell(listener, end=False)
    file = tmp_path / "out" / "job-rank-00003.prom"
    assert samples(file.read_text())["oomph_out_of_memory_total", "3", "eval"] == 1
    listener.end(End("oom", START + 9, 10.0))
    assert 'outcome="oom"' in file.read_text()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_prometheus_over_http():
    listener = PrometheusServer(0)
    tell(listener, end=False)
    with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=10) as answer:
        found = samples(answer.read().decode())
    listener.end(End("completed", START + 9, 10.0))
    assert found["oomph_phase_peak_allocated_bytes", "3", "backward/later"] == 9 * GIB
    assert found["oomph_allocation_retries_total", "3", ""] == 2
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=10)


@pytest.mark.parametrize("name", ["../../out", "..", "/etc", ""])
def test_an_id_leads_nowhere_else(tmp_path, name):
    listener = listeners([f"tensorboard:{tmp_path / 'tb'}"])[0]
    listener.begin(Run(VERSION, name, START), HEADER)
    listener.end(End("completed", START, 1.0))
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.parent.parent.parent == tmp_path / "tb"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TensorBoard's own
def test_tensorboard_reads_its_events(run, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    export(run, f"tensorboard:{tmp_path / 'tb'}")
    reader = EventAccumulator(str(tmp_path / "tb" / run.run.id / "rank-00001"))
    reader.Reload()
    scalars = reader.Scalars("memory/backward/peak_allocated_bytes")
    # The first step fills nothing of the optimizer yet: 1 + 8 + 1 GiB; the second 3 + 8 + 1.
    assert [(each.step, each.value) for each in scalars] == [(0, 10 * GIB), (1, 12 * GIB)]
    assert [each.value for each in reader.Scalars("oom/backward/request_bytes")] == [512 << 20]
    assert "step/allocated_bytes" in reader.Tags()["scalars"]


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    """A store of MLflow's in files, without a server; and nothing sent to anybody."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    return (tmp_path / "mlruns").as_uri()


@pytest.mark.filterwarnings("ignore")  # MLflow's own, of its file store among others
def test_mlflow(run, tracking):
    from mlflow.tracking import MlflowClient

    export(run, f"mlflow:{tracking}")
    client = MlflowClient(tracking_uri=tracking)
    experiment = client.get_experiment_by_name("oomph")
    (logged,) = client.search_runs([experiment.experiment_id])
    assert logged.info.status == "FAILED"
    assert logged.data.tags["oomph.run"] == run.run.id
    assert logged.data.tags["oomph.note.neighbour"] == "a process appeared"
    assert logged.data.params["arguments.per_device_train_batch_size"] == "4"
    history = client.get_metric_history(logged.info.run_id, "oomph/rank-1/backward/peak_allocated_bytes")
    assert [(each.step, each.value) for each in history] == [(0, 10 * GIB), (1, 12 * GIB)]

    listener = listeners([f"mlflow:{tracking}"])[0]
    listener.begin(RUN, HEADER)  # rank 3 logs nothing
    listener.end(End("completed", START, 1.0))
    assert len(client.search_runs([experiment.experiment_id])) == 1


@pytest.mark.parametrize(
    ("place", "module", "extra"),
    [
        ("prometheus::0", "prometheus_client", "prometheus"),
        ("tensorboard:tb", "tensorboard.compat.proto", "tensorboard"),
        ("mlflow:file:///x", "mlflow.tracking", "mlflow"),
    ],
)
def test_an_extra_that_is_missing_is_named(place, module, extra, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(UsageError, match=rf"pip install 'oomph\[{extra}\]'"):
        listeners([place])


@pytest.mark.parametrize("place", ["", "x", "prometheus:", "graphite:x", "prometheus::x", "tensorboard"])
def test_places_that_are_none(place):
    with pytest.raises(UsageError):
        listeners([place])


def test_a_listener_that_breaks_breaks_nothing_else():
    heard, complaints = [], []

    class Broken(Silent):
        def phase(self, record):
            raise RuntimeError("no disk")

    class Good(Silent):
        def phase(self, record):
            heard.append(record)

    both = Listeners([Broken(), Good()], complaints.append)
    both.phase(BACKWARD)
    both.phase(BACKWARD)
    both.begin(RUN, HEADER)
    both.end(End("completed", START, 1.0))
    assert len(heard) == 2
    assert complaints == ["Broken stopped: RuntimeError: no disk"]


@pytest.fixture
def memory():
    """fsspec's file system in memory, empty."""
    import fsspec

    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def test_a_run_is_copied_while_it_goes_on(tmp_path, memory):
    path = write_run(tmp_path, 0)
    data = read_run(path)
    both = [listeners(["copy:memory://bucket/runs/"])[0] for _ in range(2)]
    for rank, listener in enumerate(both):
        listener.begin(data.run, data.ranks[rank].headers[0])
    both[0].oom(OomRecord(Phase.EVAL, 2, START + 8, 9.0, "", GIB, counters(GIB, GIB)))
    for listener in both:
        listener.end(End("completed", START, 1.0))
    from oomph.recording.store.remote import RemoteFiles

    copied = read_run(RemoteFiles(f"memory://bucket/runs/{path.name}"))
    assert copied.run == data.run
    assert {rank: each.outcome for rank, each in copied.ranks.items()} == {
        rank: each.outcome for rank, each in data.ranks.items()
    }


def test_a_copy_that_fails_says_so_at_the_end(tmp_path, memory, monkeypatch):
    data = read_run(write_run(tmp_path, 0))

    def refuse(*args, **kwargs):
        raise PermissionError("no")

    monkeypatch.setattr(type(memory), "put_file", refuse)
    complaints = []
    told = Listeners(listeners(["copy:memory://bucket/run"]), complaints.append)
    told.begin(data.run, data.ranks[0].headers[0])
    told.end(End("completed", START, 1.0))
    assert len(complaints) == 1
    assert "was not copied to memory://bucket/run: PermissionError: no" in complaints[0]


def test_a_run_that_is_recorded_to_a_url(tmp_path, memory, monkeypatch):
    """Records are appended here, and the copy is whole when the recording has ended."""
    import torch

    import oomph
    from oomph.recording.store.remote import RemoteFiles

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OOMPH_RUN_DIR", raising=False)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with oomph.record(
        model=model,
        optimizer=optimizer,
        run_dir="memory://bucket/run",
        arguments={"batch_size": 2},
        warn=False,
    ):
        for _ in range(2):
            model(torch.ones(2, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    copied = read_run(RemoteFiles("memory://bucket/run"))
    assert copied.ranks[0].outcome.value == "completed"
    assert copied.ranks[0].steps_completed == 2
    assert copied.fingerprints[0].values["arguments.batch_size"] == "2"
    assert copied.fingerprints[0].values["model.trainable"] == str(8 * 8 + 8)
    (here,) = (each for each in (tmp_path / "oomph-runs").iterdir() if each.name != "launches")
    assert read_run(here).run == copied.run
