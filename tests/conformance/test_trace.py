"""Traces beside real snapshots: scripts of this repository that repeat the models of recorded runs, and the command
itself. The snapshots are in ../shared/snapshots beside the repository, or below OOMPH_CONFORMANCE."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest

from oomph.tracing.child.request import Limits
from tests.conformance import trace
from tests.conformance.__main__ import main
from tests.conformance.test_snapshots import FOLDER

_SCRIPTS = Path(__file__).with_name("scripts")
_TORCH = importlib.util.find_spec("torch") is not None
_ABSENT = (
    "PyTorch is not installed"
    if not _TORCH
    else "no real snapshots here: put a folder at ../shared/snapshots, or name its parent in OOMPH_CONFORMANCE"
)
#: Snapshot, GPU and torch version (from its format and its kernels; docs/trace-accuracy.md), script and arguments.
_CASES = [
    ("tiny-from-empty", "rtx-4090", "2.7", "attention_by_hand.py OUT"),
    ("unet-single-step", "rtx-4090", "2.7", "automaton_step.py OUT"),
    ("octree-inference-retries", "rtx-4090", "2.7", "automaton_levels.py OUT"),
    ("grad-profile", "h100-sxm", "2.5", "wide_linear.py OUT"),
    (
        "transformer-small-ctx200-forward",
        "a100-sxm4-80gb",
        "2.7",
        "small_transformer.py --length 200 --out OUT",
    ),
    (
        "transformer-small-ctx100-fwd-bwd",
        "a100-sxm4-80gb",
        "2.7",
        "small_transformer.py --train --length 100 --out OUT",
    ),
]
#: Here the recorded process held other models' weights besides.
_HELD_MORE = {"unet-single-step", "octree-inference-retries"}
#: Here the GPU was full, and PyTorch gave cached memory back and tried again: what it could have, in bytes.
_CAPACITY = {"octree-inference-retries": int(23.5 * 2**30)}

if FOLDER is None or not _TORCH:

    @pytest.mark.skip(reason=_ABSENT)
    def test_traces_of_real_runs():
        raise AssertionError(_ABSENT)

else:

    @pytest.mark.parametrize(("name", "gpu", "version", "command"), _CASES)
    def test_a_trace_repeats_a_real_run_to_the_end(name, gpu, version, command, tmp_path, monkeypatch):
        assert FOLDER is not None
        snapshot = FOLDER / f"{name}.pickle"
        if not snapshot.is_file():
            pytest.skip(f"the folder has no {snapshot.name}")
        monkeypatch.chdir(tmp_path)
        script, *arguments = command.split()
        answer = trace.judge(
            snapshot,
            [str(_SCRIPTS / script), *arguments],
            gpu,
            version,
            Limits(seconds=300),
            _CAPACITY.get(name),
        )
        assert answer["ended"] == "finished"
        assert answer["first_divergence"] is None
        assert answer["events_real"] == answer["events_traced"] > 0
        assert answer["events_only_real"] == answer["events_only_traced"] == 0
        assert answer["peak_allocated_bytes"]["within"]
        assert answer["peak_allocated_bytes"]["equal"] == (name not in _HELD_MORE)
        assert answer["peak_reserved_bytes"]["equal"]
        assert answer["peak_reserved_bytes"]["spread"] <= 0.05
        assert list(tmp_path.iterdir()) == [], "a trace leaves nothing behind"


@pytest.fixture
def snapshot(tmp_path):
    """One allocation, as PyTorch records it."""
    common: dict[str, Any] = {"stream": 0, "frames": [], "time_us": 1}
    address = 0x7F0000000000
    events = [
        {"action": "segment_alloc", "addr": address, "size": 2 << 20, **common},
        {"action": "alloc", "addr": address, "size": 512, **common},
    ]
    block = {
        "address": address,
        "size": 512,
        "requested_size": 512,
        "state": "active_allocated",
        "frames": [],
    }
    rest = {
        "address": address + 512,
        "size": (2 << 20) - 512,
        "state": "inactive",
        "requested_size": 0,
        "frames": [],
    }
    segment = {
        "device": 0,
        "address": address,
        "total_size": 2 << 20,
        "allocated_size": 512,
        "active_size": 512,
        "requested_size": 512,
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block, rest],
    }
    path = tmp_path / "real.pickle"
    path.write_bytes(
        pickle.dumps({"segments": [segment], "device_traces": [events], "allocator_settings": {}})
    )
    return path


def asked(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Exit code, and what the command says for itself: its last line."""
    code = main(["trace", *map(str, words)])
    captured = capfd.readouterr()
    assert captured.out == ""
    return code, captured.err.splitlines()[-1]


def test_a_snapshot_that_is_not_there(tmp_path, capfd):
    code, said = asked(capfd, "--snapshot", tmp_path / "no.pickle", "--", "train.py")
    assert code == 2
    assert "no.pickle" in said


def test_a_file_that_is_no_snapshot(tmp_path, capfd):
    (tmp_path / "log.pickle").write_text("not a pickle")
    code, said = asked(capfd, "--snapshot", tmp_path / "log.pickle", "--", "train.py")
    assert code == 2
    assert "log.pickle" in said


def test_no_command(snapshot, capfd):
    code, said = asked(capfd, "--snapshot", snapshot)
    assert (code, said) == (
        2,
        "Write the command that made the snapshot after --, as in: -- train.py --batch 8",
    )


def test_a_script_that_is_not_there(snapshot, tmp_path, capfd):
    code, said = asked(capfd, "--snapshot", snapshot, "--", tmp_path / "nowhere.py")
    assert code == 2
    assert "nowhere.py" in said


@pytest.mark.parametrize("version", ["two", "2", "2.x", ""])
def test_a_version_that_is_none(snapshot, tmp_path, capfd, version):
    code, said = asked(capfd, "--snapshot", snapshot, "--torch", version, "--", "train.py")
    assert (code, said) == (2, f"{version!r} is no version of PyTorch such as 2.7.")


@pytest.mark.parametrize("capacity", ["0", "-3", "nan", "inf", "much"])
def test_a_capacity_that_is_none(snapshot, capfd, capacity):
    with pytest.raises(SystemExit) as ended:
        main(["trace", "--snapshot", str(snapshot), f"--capacity={capacity}", "--", "train.py"])
    assert ended.value.code == 2
    assert capacity in capfd.readouterr().err.splitlines()[-1]


def test_a_gpu_that_is_none(snapshot, capfd):
    code, said = asked(capfd, "--snapshot", snapshot, "--gpu", "toaster", "--", "train.py")
    assert code == 2
    assert "toaster" in said


@pytest.mark.skipif(not _TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("raise KeyError('mine')", "The script allocated nothing on a GPU: it ended with KeyError."),
        ("import torch\nx = torch.zeros(3)", "The script allocated nothing on a GPU."),
        (
            "import torch\nx = torch.zeros(3, device='cuda')\nraise KeyError('mine')",
            "The script recorded nothing to compare: it ended with KeyError.",
        ),
    ],
)
def test_a_script_that_gives_nothing_to_compare(snapshot, tmp_path, capfd, program, sentence):
    (tmp_path / "train.py").write_text(program)
    code, said = asked(capfd, "--snapshot", snapshot, "--gpu", "a10g", "--", tmp_path / "train.py")
    assert (code, said) == (2, sentence)
