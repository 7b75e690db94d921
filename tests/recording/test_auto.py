"""`import oomph.auto` in processes of their own: what stays as it was, and what is added."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from oomph.evidence.run.data import Outcome
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from oomph.recording.outcome import said
from tests.recording.devices import FakeDevice
from tests.recording.torchrun import environment

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is "
    "free. Including non-PyTorch memory, this process has 78.15 GiB memory in use. Of the allocated memory 76.00 GiB "
    "is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated."
)
RAISE = f"import torch\ndef backward():\n    raise torch.OutOfMemoryError({MESSAGE!r})\nbackward()\n"


def run(program: str, cwd, **variables: str):
    return subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**variables),
        timeout=120,
    )


def test_importing_costs_nothing(tmp_path):
    program = (
        "import sys\nimport oomph.auto\n"
        "print([name for name in sys.modules if name.startswith('oomph') or name in ('torch', 'msgspec', 'numpy')])"
    )
    assert run(program, tmp_path).stdout.strip() == "['oomph', 'oomph.auto']"


def test_an_uncaught_failure_is_explained_after_its_traceback(tmp_path):
    plain, done = run(RAISE, tmp_path), run(f"import oomph.auto\n{RAISE}", tmp_path)
    assert done.returncode == plain.returncode == 1
    assert plain.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert plain.stderr.splitlines()[-1] in done.stderr
    before, _, after = done.stderr.partition(plain.stderr.splitlines()[-1])
    assert before.startswith("Traceback (most recent call last):")
    assert "asking for 2.00 GiB" in after
    assert "First change" in after
    assert done.stdout == ""


def test_other_exceptions_are_none_of_its_business(tmp_path):
    program = "raise ValueError('out of memory')"
    assert run(f"import oomph.auto\n{program}", tmp_path).stderr == run(program, tmp_path).stderr.replace(
        "line 1", "line 2"
    )


def test_hooks_of_others_are_called(tmp_path):
    program = (
        "import sys\n"
        "first = lambda *args: print('the first hook', args[0].__name__)\n"
        "sys.excepthook = first\n"
        "import oomph.auto\n"
        "ours = sys.excepthook\n"
        "def later(*args):\n    print('a later hook')\n    ours(*args)\n"
        "sys.excepthook = later\n" + RAISE
    )
    done = run(program, tmp_path)
    assert done.stdout.split("\n")[:2] == ["a later hook", "the first hook OutOfMemoryError"]
    assert "asking for 2.00 GiB" in done.stderr


def test_a_failure_in_a_thread(tmp_path):
    program = (
        "import oomph.auto, threading, torch\n"
        f"def work():\n    raise torch.OutOfMemoryError({MESSAGE!r})\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    done = run(program, tmp_path)
    assert done.returncode == 0
    assert "asking for 2.00 GiB" in done.stderr


def test_an_exit_code_of_the_scripts_own_stays(tmp_path):
    assert run("import oomph.auto, sys\nsys.exit(7)", tmp_path).returncode == 7


RECORDED = (
    "import oomph.auto, oomph, torch\n"
    "net = torch.nn.Linear(64, 64)\n"
    "run = oomph.record(model=net, run_dir='run')\n"
    "net(torch.ones(500_000, 64))\n"
)


@pytest.mark.parametrize("order", ["auto first", "auto last"])
def test_with_a_recording_its_numbers_are_explained(tmp_path, order):
    program = RECORDED
    if order == "auto last":
        program = RECORDED.replace("import oomph.auto, ", "import ").replace(
            "net(torch.ones", "import oomph.auto\nnet(torch.ones"
        )
    done = run(program, tmp_path, OOMPH_CPU_CAPACITY="200MiB")
    assert done.returncode == 1
    rank = read_run(tmp_path / "run").ranks[0]
    assert rank.outcome is Outcome.OOM
    assert (tmp_path / "run" / "oom" / "rank-00000" / "snapshot.pickle").is_file()
    assert done.stderr.count("oomph: memory ran out in") == 1
    assert "200.00 MiB" in done.stderr
    assert not (tmp_path / "oomph-runs").exists()


def test_several_ranks_say_it_briefly(tmp_path):
    done = run(RECORDED, tmp_path, OOMPH_CPU_CAPACITY="200MiB", RANK="3", WORLD_SIZE="4", LOCAL_RANK="3")
    said = done.stderr.partition("OutOfMemoryError:")[2].splitlines()[1:]
    assert 1 <= len(said) <= 2
    assert "rank 3 ran out of memory" in said[0]


def test_in_a_notebook(tmp_path):
    """IPython shows exceptions by a method of its shell, and calls no excepthook."""
    program = (
        "import sys, types\n"
        "class Shell:\n"
        "    def showtraceback(self):\n"
        "        print('IPython shows', sys.exc_info()[0].__name__)\n"
        "shell = Shell()\n"
        "sys.modules['IPython'] = types.SimpleNamespace(get_ipython=lambda: shell)\n"
        "import oomph.auto\n"
        f"try:\n    exec({RAISE!r})\nexcept Exception:\n    shell.showtraceback()\n"
        "try:\n    1 / 0\nexcept Exception:\n    shell.showtraceback()\n"
    )
    done = run(program, tmp_path)
    assert done.stdout.splitlines() == ["IPython shows OutOfMemoryError", "IPython shows ZeroDivisionError"]
    assert done.stderr.count("First change") == 1


def test_a_failure_that_nobody_recorded_has_its_numbers_and_no_phase(tmp_path):
    from oomph import auto

    device = FakeDevice(capacity_bytes=80 << 30)
    device.take(70 << 30)
    error = RuntimeError(MESSAGE)
    before = sys.excepthook, threading.excepthook
    try:
        recording = auto.record_now(error, device=device, run_dir=tmp_path / "run")
    finally:
        auto._hooks.remove()
    assert (sys.excepthook, threading.excepthook) != before
    rank = read_run(tmp_path / "run").ranks[0]
    assert rank.outcome is Outcome.OOM
    assert rank.phases == ()
    assert (rank.ooms[-1].phase, rank.ooms[-1].where, rank.ooms[-1].step) == (Phase.UNKNOWN, "", -1)
    assert rank.ooms[-1].counters.allocated_bytes == 70 << 30
    assert (tmp_path / "run" / "oom" / "rank-00000" / "snapshot.pickle").is_file()
    assert recording.failures.last is not None
    assert said(recording.failures.last, 0, 1, None) == (
        "memory ran out with 70.00 GiB allocated, 70.00 GiB reserved, 10.00 GiB free"
    )


def test_a_stderr_that_is_closed(tmp_path):
    done = run(f"import oomph.auto, os\nos.close(2)\n{RAISE}", tmp_path)
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("last", "outcome"), [("", Outcome.COMPLETED), ("raise KeyError('x')", Outcome.EXCEPTION)]
)
def test_recordings_that_nobody_ends_end_with_the_process(tmp_path, last, outcome):
    program = f"import oomph\nfor _ in range(5):\n    oomph.record(history=0)\n{last}\n"
    run(program, tmp_path, OOMPH_RUN_DIR=str(tmp_path / "run"))
    assert read_run(tmp_path / "run").outcome is outcome
