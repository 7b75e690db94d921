"""Programs that a script starts, without torch."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request

import pytest

from oomph.hardware.gpus import Gpu
from oomph.tracing.patching import Patches
from oomph.tracing.settings import TraceSettings
from oomph.tracing.suppress import network, processes
from oomph.tracing.suppress.inert import Inert
from oomph.tracing.suppress.processes import Answer, decide
from tests.tracing.child.light import LightRecorder

A100 = Gpu("A100-40GB", (8, 0), 108, 2048, 40 << 30)


@contextlib.contextmanager
def suppressed(**settings):
    patches = Patches()
    recorder = LightRecorder(TraceSettings(A100, (2, 13), **settings), patches)
    with patches:
        processes.install(recorder)
        network.install(recorder)
        yield recorder


@pytest.mark.parametrize(
    ("line", "piped", "answer"),
    [
        ("nvidia-smi -L", True, Answer.MISSING),
        ("/usr/bin/nvidia-smi", False, Answer.MISSING),
        ("uname -a", True, Answer.RUN),
        ("git rev-parse HEAD", True, Answer.RUN),
        ("git --version", True, Answer.RUN),
        ("git config --get user.name", True, Answer.RUN),
        ("git config user.name x", True, Answer.LEFT_OUT),
        ("git branch new", True, Answer.LEFT_OUT),
        ("git push", False, Answer.LEFT_OUT),
        ("git -C x commit", False, Answer.LEFT_OUT),
        ("gcc --version", True, Answer.RUN),
        ("gcc -o x x.c", False, Answer.LEFT_OUT),
        ("python -c print(1)", True, Answer.RUN),
        ("python train.py", False, Answer.TRAIN),
        ("torchrun train.py", False, Answer.TRAIN),
        ("", False, Answer.LEFT_OUT),
    ],
)
def test_what_is_done_with_a_program(line, piped, answer):
    assert decide(line.split(), piped) is answer


def test_questions_are_answered_and_the_rest_is_not_started(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("x")
    with suppressed() as recorder:
        assert subprocess.check_output(["uname"], text=True).strip() == os.uname().sysname
        with pytest.raises(FileNotFoundError, match="nvidia-smi"):
            subprocess.run(["nvidia-smi"], check=True)
        assert os.system(f"rm {kept}") == 0  # noqa: S605 - it is not started
        assert subprocess.run(f"rm {kept}; echo done", shell=True, check=True).returncode == 0  # noqa: S602
        assert subprocess.check_output(["rsync", "a", "b"], text=True) == ""
        assert subprocess.call(["pip", "install", "x"]) == 0
        with subprocess.Popen(["aws", "s3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert list(process.communicate(b"in")) == [b"", None]
            assert process.poll() == 0
        with subprocess.Popen(
            ["aws"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.communicate()[0] == ""
    assert kept.read_text() == "x"
    assert list(recorder.suppressed) == [
        f"start rm {kept}",
        f"start rm {kept}; echo done",
        "start rsync a b",
        "start pip install x",
        "start aws s3",
        "start aws",
    ]
    assert subprocess.check_output(["echo", "back"], text=True) == "back\n"


def test_a_training_script_runs_in_its_place(tmp_path, capfd):
    (tmp_path / "inner.py").write_text(
        "import os, sys\nprint(sys.argv, __name__, os.environ['X'], os.path.basename(os.getcwd()))\nsys.exit(3)\n"
    )
    before = (list(sys.argv), sys.modules["__main__"], list(sys.path), os.getcwd(), dict(os.environ))
    with suppressed() as recorder:
        done = subprocess.run(
            [sys.executable, "inner.py", "a"], cwd=tmp_path, env={**os.environ, "X": "y"}, check=False
        )
    assert done.returncode == 3
    assert capfd.readouterr().out == f"['inner.py', 'a'] __main__ y {tmp_path.name}\n"
    assert (list(sys.argv), sys.modules["__main__"], list(sys.path), os.getcwd(), dict(os.environ)) == before
    assert list(recorder.notes) == ["inner.py was to run as another process; it was run in this one."]
    assert not recorder.suppressed


def test_a_launcher_that_starts_more_processes_than_are_traced_is_said(tmp_path):
    (tmp_path / "inner.py").write_text("import os\nassert os.environ['WORLD_SIZE'] == '2'\n")
    with suppressed(world=2, rank=1, device_count=2) as recorder:
        subprocess.run(["torchrun", "--nproc_per_node=4", "inner.py"], cwd=tmp_path, check=True)
    assert "The script starts 4 processes; this trace is of 2: --world 4 traces that many." in recorder.notes


def test_a_process_for_another_rank_does_not_run(tmp_path):
    (tmp_path / "train.py").write_text("raise ValueError('rank 1 runs')\n")
    with suppressed() as recorder:
        words = [sys.executable, "train.py"]
        done = subprocess.run(words, cwd=tmp_path, env={**os.environ, "LOCAL_RANK": "1"}, check=True)
    assert done.returncode == 0
    assert any("other ranks" in note for note in recorder.notes)


def test_what_the_inner_script_raises_ends_the_outer_one(tmp_path):
    (tmp_path / "inner.py").write_text("raise ValueError('inside')\n")
    with suppressed(), pytest.raises(ValueError, match="inside"):
        subprocess.run([sys.executable, "inner.py"], cwd=tmp_path, check=True)


def test_requests_that_change_something_are_answered_with_nothing():
    url = "http://localhost:9/hook?token=1"
    with suppressed() as recorder, urllib.request.urlopen(url, data=b"{}") as answer:
        assert (answer.status, answer.read()) == (200, b"{}")
    # What follows the question mark may be secret.
    assert list(recorder.suppressed) == ["send POST http://localhost:9/hook"]


def test_an_inert_object_takes_everything():
    inert = Inert(x=1)
    assert inert.x == 1
    assert bool(inert)
    assert list(inert.runs) == []
    assert str(inert.name) == ""
    with inert.start(run="a") as run:
        run["metric"].append(1)
        run["other"] = 2

    @inert.decorate
    def function():
        return 3

    assert function() == 3
