"""The child as the parent starts it, with the real session: a few runs, since each imports torch."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import time

import pytest

from oomph.tracing.child.launch import run
from oomph.tracing.child.request import Ending, Limits, read_request, write
from oomph.tracing.target import Kind, Launcher, Target
from tests.tracing.child.harness import GIB, REPOSITORY, request_of


def oomph_key(folder):
    return pickle.loads((folder / "out.pickle").read_bytes())["oomph"]  # noqa: S301 - written by the test


def test_a_training_loop_ends_after_its_steps_and_writes_nothing(tmp_path, capfd):
    source = """
    import torch
    model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    while True:
        model(torch.ones(2, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.save(model.state_dict(), "checkpoint.pt")
        print("a step", flush=True)
    """
    outcome = run(request_of(tmp_path, source, steps=2))
    assert (outcome.ending, outcome.exit_code, outcome.steps_done) == (Ending.STEPS, 0, 2)
    assert outcome.traced
    found = oomph_key(tmp_path)
    assert found["suppressed"] == ["write checkpoint.pt"]
    assert found["steps_done"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.pickle", "train.py"]
    printed = capfd.readouterr()
    # The script's own output is not oomph's: it goes to standard error.
    assert (printed.out, printed.err) == ("", "a step\n")


def test_a_full_card_is_the_scripts_own_exception(tmp_path, capfd):
    source = """
    import torch
    kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(10)]
    """
    outcome = run(request_of(tmp_path, source, capacity_bytes=4 * GIB, device_bytes=4 * GIB))
    assert (outcome.ending, outcome.exit_code, outcome.traced) == (Ending.OUT_OF_MEMORY, 1, True)
    assert outcome.kind == "torch.OutOfMemoryError"
    failed = oomph_key(tmp_path)["failed"]
    assert failed["out_of_memory"]
    errors = capfd.readouterr().err
    assert errors == failed["traceback"]
    assert f'File "{tmp_path}/train.py", line 3' in errors
    assert f"{os.sep}oomph{os.sep}tracing" not in errors
    assert "_dynamo" not in errors
    assert (
        "CUDA out of memory. Tried to allocate 1024.00 MiB" in errors
        or "Tried to allocate 1.00 GiB" in errors
    )


def test_modules_beside_the_user_do_not_hide_pythons(tmp_path):
    (tmp_path / "token.py").write_text("raise RuntimeError('the wrong token')\n")
    (tmp_path / "main.py").write_text("print(1)\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text("")
    outcome = run(request_of(tmp_path, target=Target(Kind.SCRIPT, "deep/train.py")))
    assert outcome.ending is Ending.FINISHED


@pytest.mark.parametrize(
    ("source", "ending", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", Ending.CRASHED, "crashed (SIGSEGV)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", Ending.KILLED, "ran out of memory"),
        ("import os; os._exit(7)", Ending.CRASHED, "exit code 7"),
    ],
)
def test_a_child_that_is_gone_gets_a_sentence(source, ending, said, tmp_path):
    outcome = run(request_of(tmp_path, source))
    assert outcome.ending is ending
    assert said in outcome.sentence
    assert outcome.exit_code != 0
    assert not outcome.traced


#: Tests that a shell runs in the background inherit that SIGINT is ignored; this is about a process in a terminal.
_PARENT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import sys
from pathlib import Path
from oomph.tracing.child.launch import run
from oomph.tracing.child.request import read_request
outcome = run(read_request(Path(sys.argv[1])))
print(outcome.ending.value, outcome.traced, flush=True)
"""
_WAITS = """
import os, time
import torch
torch.empty(100, device="cuda")
print("ready", os.getpid(), flush=True)
time.sleep(600)
"""


def parent(folder):
    """A process that runs the request, once the script is under way, with the script's process id."""
    write(request_of(folder, _WAITS), folder / "request.json")
    process = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(folder / "request.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("ready"):
            return process, int(line.split()[1])
    raise AssertionError("the script did not start")


def gone(pid):
    """Whether a process ends soon: it has ten seconds, of which it needs none."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat") as stream:
            if stream.read().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_script_leaves_what_was_traced(number, tmp_path):
    process, child = parent(tmp_path)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    assert printed == "interrupted True\n"
    assert oomph_key(tmp_path)["devices"]
    assert gone(child)


_STARTS = """
import sys
from pathlib import Path
from oomph.tracing.child import endings, main

def starting(settings):
    raise {kind}

main._session = starting
main.main(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "endings.Interrupted"])
def test_a_child_that_is_interrupted_before_the_script_runs_prints_nothing(kind, tmp_path):
    write(request_of(tmp_path, "print(1)"), tmp_path / "request.json")
    done = subprocess.run(
        [sys.executable, "-c", _STARTS.format(kind=kind), str(tmp_path / "request.json")],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_no_child_outlives_its_parent(tmp_path):
    process, child = parent(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert gone(child)


def test_wrong_arguments_of_an_operator_end_at_the_operator(tmp_path, capfd):
    source = """
    import torch
    layer = torch.nn.Linear(10, 20).cuda()
    layer(torch.randn(4, 11, device="cuda"))
    """
    outcome = run(request_of(tmp_path, source))
    assert (outcome.ending, outcome.kind) == (Ending.FAILED, "RuntimeError")
    errors = capfd.readouterr().err
    frames = re.findall(r'File ".*?([^/]+/[^/]+)", line \d+, in (\w+|<module>)', errors)
    # As on the CPU, and on a GPU: the script, two frames of Module, Linear.forward.
    assert [name for _, name in frames] == ["<module>", "_wrapped_call_impl", "_call_impl", "forward"]
    assert frames[-1][0] == "modules/linear.py"
    assert errors.startswith("Traceback (most recent call last):\n")
    # What the CPU and a GPU say (aten/src/ATen/native/LinearAlgebra.cpp); a fake kernel has other words.
    assert errors.splitlines()[-1] == (
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x11 and 10x20)"
    )


_TWO = """
import torch
one, two = torch.nn.Linear(1024, 1024, bias=False).cuda(), torch.nn.Linear(1024, 2048, bias=False).cuda()
first, second = torch.optim.Adam(one.parameters()), torch.optim.Adam(two.parameters())
while True:
    for model, optimizer, times in ((one, first, 100), (two, second, 1)):
        for _ in range(times):
            model(torch.ones(2, 1024, device="cuda")).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("wanted", "told"), [(3, "of 8.00 MiB of parameters took its first step"), (120, "")]
)
def test_an_optimizer_that_took_no_step_yet_is_named(wanted, told, tmp_path):
    outcome = run(request_of(tmp_path, _TWO, steps=wanted))
    assert outcome.ending is Ending.STEPS
    assert told in outcome.sentence
    assert bool(told) == bool(outcome.sentence)


def test_accelerates_variables_are_accelerates(tmp_path, capfd):
    source = """
    import os
    from accelerate import Accelerator
    accelerator = Accelerator()
    print(accelerator.mixed_precision, accelerator.device.type, os.environ["ACCELERATE_MIXED_PRECISION"])
    """
    probe = subprocess.run([sys.executable, "-c", "import accelerate"], capture_output=True, check=False)
    target = Target(
        Kind.SCRIPT,
        "train.py",
        launcher=Launcher("accelerate", ("--mixed_precision", "bf16", "--num_processes", "1")),
    )
    outcome = run(request_of(tmp_path, source, target=target))
    if probe.returncode:
        assert outcome.ending is Ending.REFUSED
        assert "needs accelerate" in outcome.sentence
        return
    assert outcome.ending is Ending.FINISHED
    assert "bf16 cuda bf16\n" in capfd.readouterr().err


def test_the_parent_stays_light():
    code = (
        "import sys, oomph.tracing.child.launch, oomph.tracing.target\n"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_a_request_survives_its_file(tmp_path):
    request = request_of(tmp_path, "", limits=Limits(5, 1.5), local_world=2, world=4, rank=3)
    write(request, tmp_path / "r.json")
    found = read_request(tmp_path / "r.json")
    assert found == request
