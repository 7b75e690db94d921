"""How scripts end, in a real child process without torch."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import pytest

from oomph.tracing.child.request import Ending, Limits
from oomph.tracing.target import Kind, Launcher, Target
from tests.tracing.child.harness import light, request_of


def written(folder):
    return pickle.loads((folder / "out.pickle").read_bytes())["oomph"]  # noqa: S301 - written by the test


@pytest.mark.parametrize(
    ("source", "ending", "code", "error"),
    [
        ("print(1)", Ending.FINISHED, 0, ""),
        ("import sys; sys.exit()", Ending.FINISHED, 0, ""),
        ("import sys; sys.exit(0)", Ending.FINISHED, 0, ""),
        ("import sys; sys.exit(3)", Ending.EXITED, 3, ""),
        ("raise SystemExit('no data')", Ending.EXITED, 1, "no data\n"),
        ("raise KeyboardInterrupt", Ending.INTERRUPTED, 130, ""),
    ],
)
def test_endings(source, ending, code, error, tmp_path):
    outcome, _, errors = light(request_of(tmp_path, source))
    assert (outcome.ending, outcome.exit_code, errors) == (ending, code, error)
    assert outcome.traced
    assert written(tmp_path)["failed"] is None


def test_the_scripts_own_exception_keeps_pythons_own_traceback(tmp_path):
    source = """
    def inner(x):
        return {}["key"]
    def outer():
        try:
            inner(1)
        except KeyError as error:
            raise RuntimeError("wrong: 1") from error
    outer()
    """
    outcome, _, errors = light(request_of(tmp_path, source))
    python = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert errors == python.stderr
    assert (outcome.ending, outcome.kind, outcome.text) == (Ending.FAILED, "RuntimeError", "wrong: 1")
    assert outcome.exit_code == 1
    assert written(tmp_path)["failed"]["traceback"] == python.stderr
    assert not written(tmp_path)["failed"]["out_of_memory"]


def test_a_syntax_error_is_the_scripts_own(tmp_path):
    outcome, _, errors = light(request_of(tmp_path, "def f(:\n"))
    python = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert outcome.kind == "SyntaxError"
    assert errors.splitlines()[-1] == python.stderr.splitlines()[-1]
    assert "oomph" not in re.sub(re.escape(str(tmp_path)), "", errors)


def test_the_scripts_own_hook_prints_its_exception(tmp_path):
    source = """
    import sys
    sys.excepthook = lambda kind, error, traceback: print("mine:", error, file=sys.stderr)
    raise ValueError("x")
    """
    _, _, errors = light(request_of(tmp_path, source))
    assert errors == "mine: x\n"


def test_steps_end_the_script_and_run_its_finally(tmp_path):
    source = """
    from oomph.tracing.recorder.recorder import current
    try:
        for step in range(1, 10):
            try:
                current().step_done(step)
            except Exception:
                print("caught")
            print(step)
    finally:
        print("end")
    """
    outcome, printed, _ = light(request_of(tmp_path, source, steps=3))
    assert (outcome.ending, outcome.steps_done, printed) == (Ending.STEPS, 3, "1\n2\nend\n")


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        (0, "No optimizer step was taken"),
        (1, "after 1 optimizer step, before the 3"),
        (2, "2 optimizer steps, before"),
    ],
)
def test_fewer_steps_than_asked_for(taken, said, tmp_path):
    source = f"from oomph.tracing.recorder.recorder import current\ncurrent().step_done({taken})"
    outcome, _, _ = light(request_of(tmp_path, source, steps=3))
    assert outcome.ending is Ending.FINISHED
    assert said in outcome.sentence
    assert outcome.sentence in written(tmp_path)["notes"]


def test_a_refusal_is_a_sentence_and_no_traceback(tmp_path):
    source = (
        "from oomph.tracing.errors import TraceRefused\nraise TraceRefused('CUDA graphs are not traced.')"
    )
    outcome, _, errors = light(request_of(tmp_path, source))
    assert (outcome.ending, outcome.sentence) == (Ending.REFUSED, "CUDA graphs are not traced.")
    assert (errors, outcome.traced) == ("", False)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')",
            "needs a real GPU, and cannot be traced: libcuda.so.1",
        ),
        ("RuntimeError('0 active drivers ([]). There should only be one.')", "needs a real GPU"),
        ("RuntimeError('CUDA error: no kernel image is available for execution')", "needs a real GPU"),
        (
            "NotImplementedError(\"Could not run 'flash::fwd' with arguments from the 'CUDA' backend\")",
            "the operator flash::fwd",
        ),
        ("RuntimeError('Cannot access data pointer of Tensor (e.g. FakeTensor)')", "by its address"),
    ],
)
def test_code_for_a_real_gpu_gets_a_sentence_with_its_name(raised, said, tmp_path):
    (tmp_path / "fastext.py").write_text(f"def run():\n    raise {raised}\n")
    outcome, _, errors = light(request_of(tmp_path, "import fastext\nfastext.run()"))
    assert outcome.ending is Ending.GPU_CODE
    assert outcome.sentence.startswith("fastext ")
    assert said in outcome.sentence
    assert "Traceback" in errors


def test_without_another_package_nobody_is_named(tmp_path):
    outcome, _, _ = light(request_of(tmp_path, "raise RuntimeError('No CUDA GPUs are available')"))
    assert outcome.ending is Ending.GPU_CODE
    assert outcome.sentence == (
        "What the script does here needs a real GPU, and cannot be traced: No CUDA GPUs are available"
    )


def test_an_ordinary_exception_is_not_taken_for_gpu_code(tmp_path):
    outcome, _, _ = light(
        request_of(tmp_path, "raise RuntimeError('shapes differ: the CUDA tensor has 3 rows')")
    )
    assert outcome.ending is Ending.FAILED
    assert outcome.sentence == ""


@pytest.mark.parametrize(
    "source",
    [
        "while True:\n    pass\n",
        "import time\ntime.sleep(600)\n",
        "import threading\nthreading.Lock().acquire() or 1\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=False).start()\n",
        "while True:\n    try:\n        len(())\n    except Exception:\n        pass\n",
    ],
)
def test_a_script_that_does_not_end_is_stopped(source, tmp_path):
    outcome, _, errors = light(request_of(tmp_path, source, limits=Limits(seconds=1.0)))
    assert outcome.ending is Ending.LIMIT, errors
    assert "without an operator on the device, at " in outcome.sentence
    assert outcome.traced


def test_the_sentence_names_the_line_that_does_not_end(tmp_path):
    source = "def wait():\n    while True:\n        sum(range(10))\n\nwait()\n"
    outcome, _, _ = light(request_of(tmp_path, source, limits=Limits(seconds=1.0)))
    assert re.search(rf"{re.escape(str(tmp_path))}/train.py:[23] in wait", outcome.sentence)


def test_a_script_that_catches_everything_ends_without_a_trace(tmp_path):
    source = """
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
    """
    outcome, _, _ = light(request_of(tmp_path, source, limits=Limits(seconds=0.5)))
    assert outcome.ending is Ending.LIMIT
    assert not outcome.traced
    assert "no trace" in outcome.sentence


def test_a_limit_of_operators(tmp_path):
    source = """
    from oomph.tracing.recorder.recorder import current
    while True:
        current().operators += 4096
        current().tick()
    """
    outcome, _, _ = light(request_of(tmp_path, source, limits=Limits(operators=10_000)))
    assert outcome.ending is Ending.LIMIT
    # 4,096 operators a time: the third time is the first beyond 10,000.
    assert outcome.sentence.startswith("Stopped after 12,288 operators, at ")
    assert f"{tmp_path}/train.py:5" in outcome.sentence


def test_exit_handlers_run_before_the_trace_is_written(tmp_path):
    source = """
    import atexit
    from oomph.tracing.recorder.recorder import current
    atexit.register(lambda: current().note("from the handler"))
    """
    light(request_of(tmp_path, source))
    assert "from the handler" in written(tmp_path)["notes"]


def test_the_variables_of_a_launcher(tmp_path):
    source = """
    import os, sys
    names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR X".split()
    print([os.environ.get(name) for name in names], sys.argv[1:])
    """
    target = Target(
        Kind.SCRIPT,
        "train.py",
        ("a",),
        environment={"X": "y"},
        launcher=Launcher("torchrun"),
        world_size=16,
        local_world_size=8,
    )
    _, printed, _ = light(request_of(tmp_path, source, target=target, rank=11, world=16))
    # Rank 11 of 16, eight to a machine: the fourth of the second machine.
    assert printed == "['11', '3', '16', '8', '1', '2', '127.0.0.1', 'y'] ['a']\n"


def test_deepspeeds_own_argument(tmp_path):
    target = Target(Kind.SCRIPT, "train.py", ("a",), launcher=Launcher("deepspeed"))
    _, printed, _ = light(request_of(tmp_path, "import sys; print(sys.argv)", target=target))
    assert printed == "['train.py', '--local_rank=0', 'a']\n"


def test_a_script_without_a_launcher_sees_no_ranks(tmp_path):
    _, printed, _ = light(request_of(tmp_path, "import os; print('RANK' in os.environ)"))
    assert printed == "False\n"


def test_the_childs_own_memory_is_counted(tmp_path):
    few, _, _ = light(request_of(tmp_path, "x = 1"))
    many, _, _ = light(request_of(tmp_path, "x = bytearray(200_000_000)\nx[::4096] = bytes(len(x[::4096]))"))
    assert few.peak_host_bytes is not None
    assert many.peak_host_bytes is not None
    assert many.peak_host_bytes - few.peak_host_bytes > 150_000_000
