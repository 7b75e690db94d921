"""`oomph.record()` as a whole: what is written, what goes wrong, how it ends."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import time
import weakref

import pytest
import torch

import oomph
from oomph.errors import UsageError
from oomph.evidence.run.data import Outcome
from oomph.evidence.run.model import Header
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from oomph.recording import api
from tests.recording.devices import MIB, FakeDevice
from tests.recording.told import told


def net_and_optimizer():
    net = torch.nn.Linear(4, 2)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def train(net, optimizer, count=1):
    for _ in range(count):
        net(torch.ones(3, 4)).sum().backward()
        optimizer.step()


def test_what_a_run_directory_has(record, tmp_path):
    net, optimizer = net_and_optimizer()
    with record(model=net, optimizer=optimizer, name="mine", tags={"try": "1"}) as run:
        train(net, optimizer, 2)
        run.note("a remark")
    data = read_run(tmp_path / "run")
    assert data.run.name == "mine"
    assert data.run.tags == {"try": "1"}
    assert data.run.world_size == 1
    assert data.run.id == "run"
    rank = data.ranks[0]
    assert rank.outcome is Outcome.COMPLETED
    assert rank.steps_completed == 2
    assert rank.header is not None
    assert (rank.header.device, rank.header.capacity_bytes) == ("Fake 80GB", 80 << 30)
    assert [note.text for note in rank.notes] == ["a remark"]
    assert data.fingerprints[0].values["versions.torch"].startswith(torch.__version__.split("+")[0])
    assert data.notes == ()


def test_the_public_function_without_a_card_counts_the_cpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, optimizer = net_and_optimizer()
    with oomph.record(model=net, optimizer=optimizer) as run:
        train(net, optimizer)
    assert run.header is not None
    assert run.header.device == "CPU"
    assert run.header.limits
    assert run.directory is not None
    assert run.directory.parent == tmp_path / "oomph-runs"
    assert (run.directory / "ranks" / "rank-00000.jsonl").is_file()


def test_a_second_call_is_the_same_recording_and_ends_last(record):
    net, optimizer = net_and_optimizer()
    with record() as outer:
        with record(model=net, optimizer=optimizer) as inner:
            assert inner is outer
            train(net, optimizer)
        assert outer.active
        train(net, optimizer)
    assert not outer.active
    assert told(outer)[-1] == "end completed"
    assert told(outer).count("step 0") == told(outer).count("step 1") == 1


def test_one_after_the_other_in_one_folder_is_a_second_attempt(record, tmp_path):
    for _ in range(2):
        with record():
            pass
    rank = read_run(tmp_path / "run").ranks[0]
    assert [header.attempt for header in rank.headers] == [0, 1]
    assert rank.attempts == (Outcome.COMPLETED, Outcome.COMPLETED)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("no"), "exception"),
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(0), "completed"),
        (SystemExit(3), "exception"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
    ],
)
def test_how_it_ends(record, error, outcome, capfd):
    run = record()
    with pytest.raises(type(error)), run:
        raise error
    assert told(run)[-1] == f"end {outcome}"
    said = capfd.readouterr().err
    assert ("memory ran out" in said) == (outcome == "oom")


def test_arguments_that_make_no_sense():
    with pytest.raises(UsageError, match="longest=-1"):
        oomph.record(longest=-1)
    with pytest.raises(UsageError, match="every='x'"):
        oomph.record(every="x")  # type: ignore[arg-type]


def test_a_model_that_is_none_is_refused(record):
    before = sys.excepthook
    with pytest.raises(UsageError, match="model is a str"):
        record(model="gpt2")
    assert sys.excepthook == before
    assert api.current() is None


def test_without_torch_one_sentence(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import oomph\n"
        "try:\n    oomph.record()\nexcept oomph.OomphError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert "pip install 'oomph[torch]'" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_device_that_breaks_does_not_break_the_job(record, capfd):
    net, optimizer = net_and_optimizer()
    device = FakeDevice()
    run = record(model=net, optimizer=optimizer, device=device)
    train(net, optimizer)
    device.broken = RuntimeError("the driver is gone")
    train(net, optimizer, 30)
    assert not run.active  # after too many errors of its own
    train(net, optimizer)
    said = capfd.readouterr().err.splitlines()
    assert len([line for line in said if "the driver is gone" in line]) <= 3
    assert any("recording stops" in line for line in said)
    assert device.closed


def test_a_device_that_is_broken_from_the_start(record, capfd, tmp_path):
    net, optimizer = net_and_optimizer()

    class Broken(FakeDevice):
        def whole(self):
            raise RuntimeError("no driver")

    with record(model=net, optimizer=optimizer, device=Broken()) as run:
        assert not run.active
        train(net, optimizer)
        with run.phase("eval"):
            run.note("nothing")
    said = capfd.readouterr().err
    assert "no driver" in said
    assert "nothing is recorded" in said
    assert torch.save.__module__ == "torch.serialization"
    with record() as again:
        assert again.active


def test_a_few_errors_are_said_once_and_recording_goes_on(record, capfd):
    net, optimizer = net_and_optimizer()
    device = FakeDevice()
    with record(model=net, optimizer=optimizer, device=device) as run:
        train(net, optimizer)
        device.broken = RuntimeError("for a moment")
        net(torch.ones(3, 4))
        device.broken = None
        train(net, optimizer, 2)
    assert capfd.readouterr().err.count("for a moment") == 1
    assert "note lost" in told(run)
    assert told(run)[-1] == "end completed"
    assert run.phases.step == 3


def test_a_listener_that_breaks(record, capfd):
    from oomph.recording.listeners import Silent

    class Breaks(Silent):
        def step(self, record):
            raise ValueError("a broken logger")

    class Hears(Silent):
        heard: list = []  # noqa: RUF012

        def phase(self, record):
            self.heard.append(record.phase)

        def end(self, record):
            self.heard.append(record.outcome)

    net, optimizer = net_and_optimizer()
    with record(model=net, optimizer=optimizer, listeners=[Breaks(), Hears()]):
        train(net, optimizer, 3)
    assert capfd.readouterr().err.count("a broken logger") == 1
    assert Hears.heard[:2] == [Phase.LOAD, Phase.FORWARD]
    assert Hears.heard[-1] == "completed"


def test_a_folder_that_takes_nothing(record, tmp_path, capfd):
    (tmp_path / "file").write_text("no folder")
    net, optimizer = net_and_optimizer()
    run = record(model=net, optimizer=optimizer, run_dir=tmp_path / "file" / "run")

    def job():
        with run:
            train(net, optimizer)
            run.device.fail(5 * MIB)
            raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError):
        job()
    said = capfd.readouterr().err
    assert "records are kept in memory only" in said
    # The explanation has the numbers all the same.
    assert "memory ran out" in said
    assert "5.00 MiB were asked for" in said
    assert "step 0" in told(run)


def test_a_folder_that_vanishes_in_the_middle(record, tmp_path, capfd):
    net, optimizer = net_and_optimizer()
    with record(model=net, optimizer=optimizer) as run:
        train(net, optimizer)
        shutil.rmtree(tmp_path / "run")
        run.writer.flush()
        train(net, optimizer)
    assert capfd.readouterr().err.count("is gone") == 1
    assert "step 1" in told(run)


def test_a_clock_that_jumps_is_noted_and_orders_nothing(record, monkeypatch, tmp_path):
    net, optimizer = net_and_optimizer()
    real = time.time
    with record(model=net, optimizer=optimizer, warn=False):
        train(net, optimizer)
        monkeypatch.setattr(time, "time", lambda: real() - 86_400.0)
        train(net, optimizer)
        monkeypatch.setattr(time, "time", real)
        train(net, optimizer)
    rank = read_run(tmp_path / "run").ranks[0]
    jumps = [note.text for note in rank.notes if note.code == "clock"]
    assert len(jumps) == 2
    assert "jumped back by 86400 s" in jumps[0]
    assert "jumped forward by 86400 s" in jumps[1]
    clocks = [one.clock for one in (*rank.phases,)]
    assert clocks == sorted(clocks)


def test_models_are_let_go_at_the_end(record):
    net, optimizer = net_and_optimizer()
    run = record(model=net, optimizer=optimizer)
    train(net, optimizer)
    run.end()
    gone = weakref.ref(net)
    del net, optimizer
    gc.collect()
    assert gone() is None
    assert told(run)


def test_an_exception_that_is_caught_is_let_go(record):
    class Big(torch.nn.Module):
        def forward(self, x):
            self.seen = weakref.ref(x)
            raise torch.OutOfMemoryError("CUDA out of memory.")

    net = Big()
    with record(model=net) as run:
        with contextlib.suppress(torch.OutOfMemoryError):
            net(torch.ones(1000))
        gc.collect()
        assert net.seen() is None  # its frames would keep the activations alive, and the retry would fail too
    assert told(run)[-1] == "end oom"


def test_an_exit_ends_it(tmp_path):
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(os.getcwd())!r})\n"
        "from tests.recording.devices import FakeDevice\n"
        "import oomph\n"
        f"run = oomph.record(device=FakeDevice(), run_dir={str(tmp_path / 'run')!r})\n"
        "if sys.argv[1:]:\n    raise ValueError('no')\n"
    )
    for argument, code, outcome in (([], 0, Outcome.COMPLETED), (["x"], 1, Outcome.EXCEPTION)):
        done = subprocess.run(
            [sys.executable, "-c", program, *argument],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        assert read_run(tmp_path / "run").ranks[0].outcome is outcome
        assert ("ValueError: no" in done.stderr) == bool(argument)


def test_hooks_of_the_process_are_put_back(record):
    before = sys.excepthook
    with record():
        assert sys.excepthook != before
    assert sys.excepthook == before


def test_the_fingerprint_takes_the_arguments(record, tmp_path):
    with record(arguments={"learning_rate": 0.5}, data=[1, 2, 3]):
        pass
    values = json.loads((tmp_path / "run" / "fingerprint" / "rank-00000.json").read_text())["values"]
    assert values["arguments.learning_rate"] == "0.5"


def test_a_forked_child_is_no_rank(record, tmp_path):
    net, optimizer = net_and_optimizer()
    with record(model=net, optimizer=optimizer) as run:
        child = os.fork()
        if child == 0:
            try:
                run.note("from a child")
                with run.phase("save"):
                    pass
                run.end()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    rank = read_run(tmp_path / "run").ranks[0]
    assert isinstance(rank.header, Header)
    assert rank.notes == ()
    assert rank.outcome is Outcome.COMPLETED
    assert Phase.SAVE not in rank.summaries


@pytest.mark.parametrize(
    "options",
    [{"exports": [5]}, {"exports": "nowhere"}, {"device": "cuda:0"}],
    ids=["number", "place", "device"],
)
def test_arguments_that_make_no_sense_are_named(record, options):
    with pytest.raises(
        UsageError, match=next(iter(options)) if options != {"exports": "nowhere"} else "'nowhere'"
    ):
        record(**options)


def test_an_object_that_answers_no_question_is_no_model(record):
    class Odd:
        def __getattr__(self, name):
            raise RuntimeError(f"no {name} here")

    with pytest.raises(UsageError, match="model is a Odd"):
        record(model=Odd())


def test_a_run_directory_that_no_file_system_takes_costs_the_files_only(record, monkeypatch, capsys):
    monkeypatch.delenv("OOMPH_RUN_DIR", raising=False)
    net, optimizer = net_and_optimizer()
    with record(run_dir="a\0b") as run:
        train(net, optimizer)
    assert run.directory is None
    assert "kept in memory only" in capsys.readouterr().err
