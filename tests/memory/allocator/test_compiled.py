"""The compiled core, where this machine can build it, gives the results of the pure one; else the wheel is pure."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

import hatch_build
from tests.conftest import ROOT
from tests.memory.allocator import workload


@pytest.fixture(scope="module")
def files():
    """The compiled files, or none where they cannot be built."""
    try:
        return hatch_build.compiled(ROOT)
    except (OSError, subprocess.SubprocessError):
        return {}


def test_both_cores_agree(files, root, tmp_path):
    copy = tmp_path / "src"
    shutil.copytree(root / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for place, path in files.items():
        shutil.copy2(path, copy / place)
    result = subprocess.run(
        [sys.executable, str(root / "tests" / "memory" / "allocator" / "workload.py")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(copy)},
    )
    printed = json.loads(result.stdout)
    assert printed["core"].startswith(str(copy))
    assert printed["core"].endswith(".py") == (not files)
    assert printed["runs"] == {text: workload.run(text) for text in workload.SETTINGS}


def test_every_hot_module_is_compiled(files):
    places = {place.split(".")[0] for place in files}
    modules = {f"{package}/{name}" for package, names in hatch_build.MODULES.items() for name in names}
    assert places in (set(), {*modules, "oomph/compiled__mypyc"})


def test_the_workload_meets_what_matters():
    runs = [workload.run(text) for text in workload.SETTINGS]
    assert all(run["num_ooms"] for run in runs)
    assert all(run["num_alloc_retries"] for run in runs)


def test_the_compiler_can_be_left_out(monkeypatch):
    monkeypatch.setenv("OOMPH_PURE", "1")
    assert not hatch_build.wanted()
    monkeypatch.setenv("OOMPH_PURE", "0")
    assert hatch_build.wanted() == (sys.implementation.name == "cpython")


def test_what_went_wrong_is_one_line():
    failed = subprocess.CalledProcessError(1, ["python", "-c", "..."], b"core.py:3: error: no\n", b"")
    assert hatch_build.complaint(failed) == "core.py:3: error: no"
    failed = subprocess.CalledProcessError(1, ["python"], b"", b"Traceback\nModuleNotFoundError: mypyc\n")
    assert hatch_build.complaint(failed) == "ModuleNotFoundError: mypyc"
    assert hatch_build.complaint(subprocess.TimeoutExpired("python", 9)) == "TimeoutExpired"
    assert hatch_build.complaint(OSError("read-only")) == "read-only"


def test_the_hot_modules_import_nothing_else_of_oomph(root):
    source = root / "src"
    allowed = {name.removesuffix(".py").replace("/", ".") for name in hatch_build.NEEDED}
    folder = source / hatch_build.ALLOCATOR
    for path in (*folder.glob("*.py"), source / "oomph/evidence/snapshot/scan.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("from oomph"):
                module = line.split()[1]
                assert module in allowed or module.startswith("oomph.memory.allocator."), (path, line)
