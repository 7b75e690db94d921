"""`oomph trace` with a child that leaves traces made by hand, and once with a real one."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oomph.report.trace.json import read_schema
from oomph.tracing.child import launch
from oomph.tracing.child.request import Ending, Outcome, Request
from oomph.tracing.device import check as device_check
from oomph.tracing.model import Failed, Trace
from oomph.tracing.target.model import Kind
from oomph.tracing.write import write
from oomph.units import GIB, MIB
from tests.tracing.made import Maker, out_of_memory, training

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed


class Child:
    """Stands in for the child: keeps the requests, and leaves what `make` makes."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.ending = Ending.FINISHED
        self.sentence = ""
        self.exit_code = 0
        self.steps_done = 1
        self.make: Callable[[Request], Trace | None] = lambda request: training(
            Maker(capacity=request.settings.capacity_bytes)
        ).trace(rank=request.settings.rank, world=request.settings.world)

    def run(self, request: Request, *, quiet: bool = False) -> Outcome:
        self.requests.append(request)
        trace = self.make(request)
        if trace is not None:
            write(trace, request.out)
        return Outcome(
            self.ending, self.sentence, self.exit_code, traced=trace is not None, steps_done=self.steps_done
        )


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Child:
    (tmp_path / "train.py").write_text("print('never run')\n", encoding="utf-8")
    made = Child()
    monkeypatch.setattr(launch, "run", made.run)
    monkeypatch.setattr(device_check, "check", lambda: None)
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    return made


class TestWhatIsAskedFor:
    def test_without_a_gpu_memory_has_no_end(self, run, child):
        result = run("trace", "--", "train.py", "--batch", "8")
        assert (result.exit_code, result.stderr) == (0, "")
        (request,) = child.requests
        assert request.settings.capacity_bytes is None
        assert request.settings.gpu.capability == (8, 0)
        assert request.settings.steps == 3
        assert (request.target.kind, request.target.arguments) == (Kind.SCRIPT, ("--batch", "8"))
        assert "without --gpu or --capacity nothing says whether that fits" in " ".join(result.stdout.split())

    def test_a_gpu_leaves_less_than_it_has(self, run, child):
        assert run("trace", "--gpu", "a100-40gb", "--", "train.py").exit_code == 0
        settings = child.requests[0].settings
        assert 36 * GIB < settings.capacity_bytes < settings.device_bytes < 40 * GIB

    def test_options_reach_the_child(self, run, child):
        arguments = (
            "trace --capacity 2GiB --steps all --torch 2.6 --set batch=4 --world 4 --rank 2 --timeout 60 "
            "--max-operators 1000 --no-stacks --alloc-conf expandable_segments:True -- train.py --batch 8"
        )
        assert run(*arguments.split()).exit_code == 0
        (request,) = child.requests
        settings = request.settings
        assert settings.capacity_bytes == settings.device_bytes == 2 * GIB
        assert (settings.steps, settings.torch, settings.rank, settings.world) == (None, (2, 6), 2, 4)
        assert not settings.stacks
        assert settings.allocator.expandable_segments
        assert request.target.arguments == ("--batch", "4")
        assert (request.limits.seconds, request.limits.operators) == (60.0, 1000)

    def test_settings_of_the_allocator_come_from_the_environment(self, run, child, monkeypatch):
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
        run("trace", "--", "train.py")
        assert child.requests[0].settings.allocator.max_split_size_bytes == 128 * MIB
        run("trace", "--", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:256", "python", "train.py")
        assert child.requests[1].settings.allocator.max_split_size_bytes == 256 * MIB

    def test_all_ranks_of_torchrun(self, run, child):
        result = run("trace", "--rank", "all", "--", "torchrun", "--nproc-per-node", "2", "train.py")
        assert result.exit_code == 0
        assert [request.settings.rank for request in child.requests] == [0, 1]
        assert {request.settings.world for request in child.requests} == {2}
        assert "All ranks" in result.stdout

    def test_the_ranks_that_differ(self, run, child):
        run("trace", "--rank", "distinct", "--", "torchrun", "--nproc-per-node", "8", "train.py")
        assert [request.settings.rank for request in child.requests] == [0, 7]
        child.requests.clear()
        run("trace", "--rank", "distinct", "--stages", "2", "--world", "8", "--", "train.py")
        assert [request.settings.rank for request in child.requests] == [0, 3, 4, 7]

    def test_the_largest_value(self, run, child):
        def make(request: Request) -> Trace:
            batch = int(request.target.arguments[-1])
            maker = Maker(capacity=GIB)
            try:
                return training(maker, activation=batch * 10 * MIB).trace()
            except Exception:  # noqa: BLE001 - the simulated card is full
                failed = Failed("torch.OutOfMemoryError", "full", "", True)
                return maker.trace(failed=failed)

        child.make = make
        arguments = "trace --capacity 1GiB --largest batch --format json --save best.pickle -- train.py"
        result = run(*arguments.split())
        answer = json.loads(result.stdout)
        largest = answer["largest"]
        assert (largest["value"], largest["fails_at"]) == (largest["value"], largest["value"] + 1)
        # 300 MiB of weights and states; two activations of 10 MiB times the batch beside them.
        assert 300 + 20 * largest["value"] < 1024
        assert answer["traces"][0]["fits"] is True
        assert Path("best.pickle").exists()
        assert "batch=1: fits" in result.stderr


class TestAnswers:
    def test_what_fits_exits_with_zero(self, run, child):
        result = run("trace", "--capacity", "2GiB", "--", "train.py")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("It fits: GPU 0 needs 650.00 MiB")

    def test_what_does_not_fit_exits_with_one(self, run, child):
        child.make = lambda _: out_of_memory(Maker(capacity=250 * MIB))
        child.ending, child.exit_code = Ending.OUT_OF_MEMORY, 1
        result = run("trace", "--capacity", "250MiB", "--", "train.py")
        assert result.exit_code == 1
        assert result.stdout.startswith("It does not fit")
        assert run("trace", "--capacity", "250MiB", "--exit-zero", "--", "train.py").exit_code == 0

    def test_an_exception_of_the_scripts_own_exits_with_two(self, run, child):
        failed = Failed("ValueError", "no", "Traceback", False)
        child.make = lambda _: training(Maker(capacity=2 * GIB)).trace(failed=failed)
        child.ending, child.exit_code = Ending.FAILED, 1
        result = run("trace", "--capacity", "2GiB", "--", "train.py")
        assert result.exit_code == 2
        assert result.stdout.startswith("The script ended by itself, with ValueError (no)")

    def test_a_child_without_a_trace_is_a_sentence(self, run, child):
        child.make = lambda _: None
        child.ending, child.sentence = Ending.CRASHED, "The traced process crashed (SIGSEGV)."
        result = run("trace", "--", "train.py")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == "oomph: The traced process crashed (SIGSEGV).\n"

    def test_an_interrupted_child_exits_with_130(self, run, child):
        child.make = lambda _: None
        child.ending, child.exit_code = Ending.KILLED, 130
        assert run("trace", "--", "train.py").exit_code == 130

    def test_a_run_that_was_stopped_says_so(self, run, child):
        child.ending = Ending.STEPS
        text = " ".join(run("trace", "--", "train.py").stdout.split())
        assert "stopped after 1 optimizer step:" in text

    def test_a_trace_that_was_cut_short_says_so_first(self, run, child):
        child.ending, child.sentence, child.exit_code = Ending.LIMIT, "60 seconds were over.", 1
        result = run("trace", "--capacity", "2GiB", "--timeout", "60", "--", "train.py")
        text = " ".join(result.stdout.split())
        assert text.startswith("60 seconds were over. As far as it ran: It fits")
        assert text.count("60 seconds were over.") == 1
        assert result.exit_code == 0

    def test_what_the_asked_steps_leave_out_comes_first(self, run, child):
        child.ending, child.sentence = Ending.STEPS, "An optimizer took no step."
        text = " ".join(run("trace", "--capacity", "2GiB", "--", "train.py").stdout.split())
        assert text.startswith("An optimizer took no step. As far as it ran: It fits")
        assert "stopped after 1 optimizer step:" in text

    def test_json_is_of_the_published_shape(self, run, child):
        result = run("trace", "--format", "json", "--capacity", "2GiB", "--what-if", "all", "--", "train.py")
        answer = json.loads(result.stdout)
        jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
        assert answer["traces"][0]["command"] == "train.py"
        assert answer["traces"][0]["snapshot"]["source"] == "train.py"
        assert answer["traces"][0]["snapshot"]["devices"][0]["what_if"]["trials"]

    @pytest.mark.parametrize("name", ["text", "json", "markdown", "html"])
    def test_every_format_can_go_to_a_file(self, run, child, name):
        result = run("trace", "--format", name, "-o", "answer", "--", "train.py")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "wrote answer\n")
        assert Path("answer").read_text(encoding="utf-8")

    def test_a_saved_trace_is_a_snapshot(self, run, child):
        result = run("trace", "--save", "kept.pickle", "--export", "kept.csv", "--", "train.py")
        assert result.exit_code == 0
        assert Path("kept.csv").read_text(encoding="utf-8").startswith("position,")
        told = run("snapshot", "kept.pickle")
        assert told.exit_code == 0
        assert "the trace (certain)" in told.stdout

    def test_ranks_are_saved_each(self, run, child):
        run("trace", "--world", "2", "--rank", "all", "--save", "kept.pickle", "--", "train.py")
        assert sorted(path.name for path in Path().glob("*.pickle")) == [
            "kept-rank0.pickle",
            "kept-rank1.pickle",
        ]

    def test_redacted(self, run, child):
        result = run(
            "trace", "--redact", "--save", "secretname.pickle", "--", "train.py", "--token", "hf_abc"
        )
        assert "someone" not in result.stdout + result.stderr
        assert "secretname" not in result.stderr


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ("", "Nothing to trace"),
            ("--gpu nothing-known -- train.py", "No GPU is known by the name"),
            ("--gpu mi300x -- train.py", "only NVIDIA GPUs"),
            ("--capacity much -- train.py", "is no size"),
            (
                "--capacity 24 -- train.py",
                "is 24 bytes, in which PyTorch can have nothing; say the unit: 24GiB",
            ),
            ("--steps 0 -- train.py", "--steps"),
            ("--steps x -- train.py", "--steps"),
            ("--torch 1.13 -- train.py", "can speak for 2.4"),
            ("--torch new -- train.py", "can speak for 2.4"),
            ("--rank 1 -- train.py", "there are 1 processes"),
            ("--rank x -- train.py", "give a number, all, or distinct"),
            ("--stages 2 -- train.py", "--rank distinct"),
            ("--world 4 --rank distinct --stages 3 -- train.py", "cannot share 4 ranks evenly"),
            ("--what-if nonsense:1 -- train.py", "--what-if"),
            ("--alloc-conf nonsense:1 -- train.py", "nonsense"),
            ("--export page.pdf -- train.py", "nothing is exported"),
            ("--largest batch -- train.py", "give --gpu or --capacity"),
            ("--largest batch --set batch=1 --capacity 1GiB -- train.py", "contradict"),
            ("--rank all --format html -- train.py", "one process"),
            ("--save a.pickle -o a.pickle -- train.py", "two outputs"),
            ("--save missing/a.pickle -- train.py", "create it or give another path to --save"),
            ("-o missing/answer.txt -- train.py", "create it or give another path to -o"),
            # A folder that is there, in which no file can be made, whoever asks.
            ("-o /proc/answer.txt -- train.py", "/proc/answer.txt: cannot be written: "),
            ("--set =4 -- train.py", "--set"),
            ("-- missing.py", "missing.py"),
            ("-- bash run.sh", "bash"),
        ],
    )
    def test_one_sentence_and_no_child(self, run, child, arguments, why):
        result = run("trace", *arguments.split())
        assert result.exit_code == 2
        assert result.stdout == ""
        assert why in result.stderr
        assert result.stderr.count("\n") == 1
        assert not child.requests

    def test_without_pytorch_it_says_what_to_do(self, run, child, monkeypatch):
        import importlib.metadata

        def version(name: str) -> Any:
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "version", version)
        result = run("trace", "--", "train.py")
        assert result.exit_code == 2
        assert "needs PyTorch" in result.stderr


_SCRIPT = """
import torch

model = torch.nn.Linear(1024, 1024, bias=False).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(5):
    model(torch.randn(8, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_real_script_from_the_command_line(tmp_path):
    (tmp_path / "train.py").write_text(_SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "oomph", "trace", "--gpu", "a100-40gb", "--format", "json", "--", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trace = json.loads(done.stdout)["traces"][0]
    assert (trace["fits"], trace["steps_done"]) == (True, 3)
    shares = {share["category"]: share["bytes"] for share in trace["snapshot"]["devices"][0]["shares"]}
    # 1024 * 1024 floats of 4 bytes, twice that in Adam's states (its two step counters stay on the CPU).
    assert shares["parameters"] == 4 * MIB
    assert shares["gradients"] == 4 * MIB
    assert shares["optimizer state"] == 8 * MIB
