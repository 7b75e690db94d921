"""Recording from inside of trainers: the libraries' own, and an engine that behaves as DeepSpeed's does."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import oomph
from oomph.evidence.run.data import Outcome
from oomph.evidence.run.now import decode_now, now_name
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from tests.recording.devices import FakeDevice
from tests.recording.told import told
from tests.recording.torchrun import SCRIPTS, environment, the_run, torchrun


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("trainer")
    done = torchrun(cwd, 4, "trainer.py", str(cwd / "out"))
    assert done.returncode == 0, done.stderr
    return read_run(the_run(cwd))


def test_a_real_trainer_of_transformers(trainer):
    assert sorted(trainer.ranks) == [0, 1, 2, 3]
    for rank in trainer.ranks.values():
        check_trainer(rank)


def check_trainer(rank):
    assert rank.outcome is Outcome.COMPLETED
    assert [one.step for one in rank.steps] == [0, 1, 2]
    step = ["forward {0}", "backward {0}", "forward {0}", "backward {0}", "optimizer {0}"]
    assert [f"{one.phase.value} {one.step}" for one in rank.phases] == [
        "load -1",
        *[line.format(0) for line in step],
        *[line.format(1) for line in step],
        "eval 2",
        *[line.format(2) for line in step],
        "eval 3",
        "save 3",
    ]
    assert rank.steps[0].batch["input_ids"] == (2, 16)
    evaluation = next(one for one in rank.phases if one.phase is Phase.EVAL)
    assert evaluation.batch["input_ids"] == (3, 16)


def test_its_arguments_are_in_the_fingerprint(trainer):
    values = trainer.fingerprints[0].values
    assert values["arguments.per_device_train_batch_size"] == "2"
    assert "versions.transformers" in values


def test_killed_with_9_in_backward(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "killed.py")],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env=environment(),
        timeout=120,
    )
    assert done.returncode == -9
    rank = read_run(tmp_path / "run").ranks[0]
    assert rank.outcome is Outcome.KILLED
    assert rank.steps_completed == 2
    assert rank.phases[-1].phase is Phase.FORWARD
    assert rank.phases[-1].step == 2
    now = decode_now((tmp_path / "run" / now_name(0)).read_bytes())
    assert now is not None
    assert (now.phase, now.step, now.over) == (Phase.BACKWARD, 2, False)
    assert rank.doing is not None
    assert (rank.doing.phase, rank.doing.step, rank.doing.certain) == (Phase.BACKWARD, 2, True)
    diagnosis = oomph.explain([tmp_path / "run"])
    assert diagnosis.phase is None or diagnosis.phase.phase is Phase.BACKWARD


class Engine(torch.nn.Module):
    """As DeepSpeed's engine: its own backward and step, accumulation, an optimizer that is none of PyTorch's."""

    def __init__(self, module, accumulation=2):
        super().__init__()
        self.module = module
        self.accumulation = accumulation
        self.micro_steps = 0
        self.skipped_steps = 0
        self.overflows = False

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def is_gradient_accumulation_boundary(self):
        return (self.micro_steps + 1) % self.accumulation == 0

    def backward(self, loss):
        loss.backward()

    def step(self):
        if self.is_gradient_accumulation_boundary():
            if self.overflows:
                self.skipped_steps += 1
            with torch.no_grad():
                for parameter in self.module.parameters():
                    parameter.grad = None
        self.micro_steps += 1


def test_an_engine_like_deepspeeds(record):
    engine = Engine(torch.nn.Linear(4, 2))
    with record(model=engine) as run:
        for overflows in (False, True, False):
            engine.overflows = overflows
            for _ in range(2):
                engine.backward(engine(torch.ones(3, 4)).sum())
                engine.step()
    lines = told(run)
    assert [line for line in lines if line.startswith("step")] == ["step 0", "step 1"]
    assert lines[:7] == [
        "load -1",
        "forward 0",
        "backward 0",
        "forward 0",
        "backward 0",
        "optimizer 0",
        "step 0",
    ]
    assert "backward" not in vars(engine)
    assert "step" not in vars(engine)


def test_an_engine_that_fails_in_its_backward(record):
    class Breaks(Engine):
        def backward(self, loss):
            raise torch.OutOfMemoryError("CUDA out of memory.")

    engine = Breaks(torch.nn.Linear(4, 2))
    run = record(model=engine)
    with pytest.raises(torch.OutOfMemoryError), run:
        engine.backward(engine(torch.ones(3, 4)).sum())
    assert told(run)[-2:] == ["backward 0 OutOfMemoryError", "end oom"]


def test_accelerates_tracker(tmp_path, monkeypatch):
    from accelerate import Accelerator

    from oomph.recording.callbacks.accelerate import OomphTracker

    monkeypatch.chdir(tmp_path)
    before = Accelerator.prepare_model
    tracker = OomphTracker(device=FakeDevice(), run_dir=tmp_path / "run", every=0)
    accelerator = Accelerator(cpu=True, log_with=tracker, gradient_accumulation_steps=2)
    net = torch.nn.Linear(4, 2)
    net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    accelerator.init_trackers("mine", config={"lr": 0.1})
    for _ in range(4):
        with accelerator.accumulate(net):
            loss = net(torch.ones(3, 4)).sum()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.log({"loss": 1.0}, step=1)
    accelerator.end_training()
    run = tracker.tracker
    assert run is not None
    step = ["forward {0}", "backward {0}", "forward {0}", "backward {0}", "optimizer {0}", "step {0}"]
    assert [line for line in told(run) if not line.startswith("note")] == [
        "load -1",
        *[line.format(0) for line in step],
        *[line.format(1) for line in step],
        "end completed",
    ]
    assert Accelerator.prepare_model is before


@pytest.mark.filterwarnings("ignore")
def test_lightnings_callback(tmp_path):
    import lightning.pytorch as lightning

    from oomph.recording.callbacks.lightning import OomphCallback

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(4, 2)

        def training_step(self, batch, batch_idx):
            return self.net(batch).sum()

        def validation_step(self, batch, batch_idx):
            self.net(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = OomphCallback(device=FakeDevice(), run_dir=tmp_path / "run", every=0)
    before = Module.training_step
    trainer = lightning.Trainer(
        max_steps=2,
        accelerator="cpu",
        devices=1,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=1,
        default_root_dir=tmp_path,
    )
    loader = torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=3)
    trainer.fit(Module(), loader, loader)
    assert callback.run is not None
    step = ["forward {0}", "backward {0}", "optimizer {0}", "step {0}"]
    assert told(callback.run) == [
        "load -1",
        "eval -1",
        *[line.format(0) for line in step],
        *[line.format(1) for line in step],
        "eval 2 x2",
        "end completed",
    ]
    assert callback.run.writer.held[3].batch == {"batch": (3, 4)}
    assert Module.training_step is before


@pytest.mark.parametrize("library", ["transformers", "accelerate"])
def test_without_the_library_one_sentence(library):
    program = (
        "import sys\n"
        f"sys.modules[{library!r}] = None\n"
        "from oomph import OomphError\n"
        f"try:\n    import oomph.recording.callbacks.{library}\nexcept OomphError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == f"{library} is not installed: pip install {library}."
