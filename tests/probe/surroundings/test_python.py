"""Another interpreter is asked for its PyTorch without importing it."""

from __future__ import annotations

import os
import sys

import pytest

from oomph.probe.surroundings import asked_python, python
from oomph.probe.surroundings.python import Installed
from oomph.probe.surroundings.seen import Untold

#: torch/version.py as the wheels have it.
VERSION = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.3.1+cu121'
debug = False
cuda: Optional[str] = '12.1'
git_version = '63d5e9221bedd1546b7d364b5ce4171547db12a9'
hip: Optional[str] = None
"""
METADATA = """\
Metadata-Version: 2.1
Name: torch
Version: 2.3.1
Requires-Dist: filelock
Requires-Dist: nvidia-cudnn-cu12 ==8.9.2.26 ; platform_system == "Linux" and platform_machine == "{machine}"
Requires-Dist: nvidia-nccl-cu12==2.20.5; platform_system == "Linux"
Requires-Dist: triton (==2.3.1) ; platform_system == "Linux"
Requires-Dist: intel-openmp ==2021.4.0 ; platform_system == "Windows"
Requires-Dist: opt-einsum ==3.3.0 ; extra == "opt-einsum"
"""


@pytest.fixture
def site(tmp_path):
    """A folder of packages: torch, a newer cuDNN, and a damaged one."""
    import platform

    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(VERSION)
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
    for name, text in {
        "torch-2.3.1": METADATA.replace("{machine}", platform.machine()),
        "nvidia_cudnn_cu12-9.1.0.70": "Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: 9.1.0.70\n",
        "secret_internal-1.0": "Metadata-Version: 2.1\nName: secret-internal\nVersion: 1.0\n",
        "broken-1.0": "\0\0",
    }.items():
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info" / "METADATA").write_text(text)
    return tmp_path


def test_another_interpreter(site, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(site))
    found = python.installed(sys.executable)
    assert isinstance(found, Installed)
    assert (found.torch, found.cuda, found.hip) == ("2.3.1+cu121", "12.1", None)
    assert found.torch_file == str(site / "torch" / "version.py")
    # What is first on the path is what is imported: this Python's own torch stands behind.
    assert found.packages["torch"] == "2.3.1"
    assert found.packages["nvidia-cudnn-cu12"] == "9.1.0.70"
    assert "secret-internal" not in found.packages
    if sys.platform == "linux":
        assert found.pins == {
            "nvidia-cudnn-cu12": "8.9.2.26",
            "nvidia-nccl-cu12": "2.20.5",
            "triton": "2.3.1",
        }


def test_this_interpreter_imports_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = python.installed()
    assert isinstance(found, Installed)
    assert found.python == sys.executable
    assert "torch" not in sys.modules


def test_a_file_of_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('this json is not the library')\n")
    monkeypatch.chdir(tmp_path)
    assert isinstance(python.installed(sys.executable), Installed)


@pytest.mark.skipif(os.name == "nt", reason="needs executable scripts")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("exit 3", "ended with 3"),
        ("echo hello", "did not answer as a Python does"),
        ("echo '[1]'", "did not answer as a Python does"),
        ('echo \'{"problem": "too old"}\'', "too old"),
        ("sleep 60", "did not answer within 0.2 s"),
    ],
)
def test_what_is_no_python(tmp_path, monkeypatch, body, why):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nexec 2>&1\n{body.replace('sleep', 'exec sleep')}\n")
    program.chmod(0o755)
    if "sleep" in body:
        monkeypatch.setattr(python, "_TIMEOUT_S", 0.2)
    found = python.installed(str(program))
    assert isinstance(found, Untold)
    assert why in found.why


def test_no_program():
    found = python.installed("/nowhere/python")
    assert isinstance(found, Untold)
    assert found.why.startswith("/nowhere/python cannot be started")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (VERSION, {"__version__": "2.3.1+cu121", "cuda": "12.1", "hip": None}),
        ("__version__ = '2.1.0+cpu'\ncuda = None\n", {"__version__": "2.1.0+cpu", "cuda": None}),
        ("cuda = f()\n__version__ = '1'", {"__version__": "1"}),
        ("not python (", {}),
        ("\0", {}),
    ],
)
def test_constants(text, values):
    assert asked_python.constants(text) == values


def test_architectures(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text(
        "class _C:\n    _cuda_getArchFlags = staticmethod(lambda: 'sm_50 sm_80 sm_90a compute_90')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert python.architectures(sys.executable) == ("sm_50", "sm_80", "sm_90a", "compute_90")
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open')\n")
    found = python.architectures(sys.executable)
    assert isinstance(found, Untold)
    assert "libcudart.so.12" in found.why
