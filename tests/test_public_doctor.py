"""`oomph.doctor`: what it takes, and what it refuses."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import oomph
from oomph.errors import InputError, UsageError
from oomph.job.names import model

SMI = """\
==============NVSMI LOG==============

Driver Version                            : 470.82.01
CUDA Version                              : 11.4

Attached GPUs                             : 1
GPU 00000000:00:04.0
    Product Name                          : Tesla T4
    GPU UUID                              : GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
    FB Memory Usage
        Total                             : 15360 MiB
        Reserved                          : 438 MiB
        Used                              : 2 MiB
        Free                              : 14919 MiB
    Processes                             : None
"""
TORCH = "torch==2.3.1+cu121\nnvidia-nccl-cu12==2.20.5\nnvidia-cudnn-cu12==8.9.2.26\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "smi.txt").write_text(SMI)
    (tmp_path / "pip-freeze.txt").write_text(TORCH)
    return tmp_path


def codes(checkup):
    return {finding.code for finding in checkup.findings}


def test_files_of_another_machine(folder):
    """CUDA 12.x needs driver 525.60.13 at least (CUDA Compatibility, minor version compatibility)."""
    found = oomph.doctor([folder])
    assert isinstance(found, oomph.Checkup)
    assert found.exit_code == 1
    assert not found.environment.live
    assert "ENV101" in codes(found)
    (one,) = [finding for finding in found.findings if finding.code == "ENV101"]
    assert "470.82.01" in one.problem.says
    assert "525.60.13" in one.problem.says
    assert codes(oomph.doctor([str(folder / "smi.txt"), folder / "pip-freeze.txt"])) == codes(found)


def test_select_and_ignore(folder):
    assert codes(oomph.doctor([folder], select=["ENV101"])) == {"ENV101"}
    assert "ENV101" not in codes(oomph.doctor([folder], ignore=["ENV1"]))


def test_standard_input():
    assert oomph.doctor(["-"], stdin=io.BytesIO(SMI.encode())).environment.driver is not None


def test_a_script_beside_files(folder):
    script = folder / "train.py"
    script.write_text(
        "import os, torch\nos.environ['NCCL_SOCKET_IFNAME'] = 'nvlink0'\ntorch.cuda.amp.GradScaler()\n"
    )
    found = oomph.doctor([folder / "smi.txt"], scripts=[script])
    assert {"SCR104", "ENV403"} <= codes(found)
    assert [source for source, _ in found.environment.sources] == [str(folder / "smi.txt"), str(script)]
    alone = oomph.doctor(scripts=[script])
    assert {"SCR104", "ENV403"} <= codes(alone)
    assert not alone.environment.live
    order = ["error", "warning", "note"]
    severities = [order.index(finding.problem.severity.value) for finding in found.findings]
    assert severities == sorted(severities)


def test_this_machine_and_a_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    assert oomph.doctor(scripts=[script], here=True).environment.live
    assert oomph.doctor(select=["ENV5"]).environment.live


def test_a_job(folder):
    """32 GiB of main memory cannot hold what 70 B parameters need: 2 bytes of each are 130 GiB."""
    (folder / "free.txt").write_text(
        "$ free -b\n               total        used        free      shared  buff/cache   available\n"
        "Mem:     34359738368  1073741824 33285996544           0           0 33285996544\n"
    )
    paths = [folder / "free.txt", folder / "smi.txt"]
    job = oomph.Job(model=model("llama-3.1-70b"))
    assert "ENV501" not in codes(oomph.doctor(paths))
    assert "ENV501" in codes(oomph.doctor(paths, job=job))
    assert "ENV501" in codes(oomph.doctor(paths, job="llama-3.1-70b"))


@pytest.mark.parametrize(
    ("paths", "options", "error"),
    [
        (["smi.txt"], {"here": True}, UsageError),
        (["smi.txt"], {"pid": 1}, UsageError),
        (["smi.txt"], {"python": "python3"}, UsageError),
        (["smi.txt"], {"ask_cloud": True}, UsageError),
        ([], {"scripts": ["train.py"], "pid": 1}, UsageError),
        (["nothing.txt"], {}, InputError),
        ([], {"scripts": ["nothing.py"]}, InputError),
        ([], {"python": "/nowhere/python"}, InputError),
        (["smi.txt"], {"job": "no-such-model-anywhere"}, UsageError),
        (["smi.txt"], {"job": "no-such-file.toml"}, InputError),
    ],
)
def test_refusals(folder, monkeypatch, paths, options, error):
    monkeypatch.chdir(folder)
    with pytest.raises(error) as caught:
        oomph.doctor(paths, **options)
    assert "\n" not in str(caught.value)


def test_nothing_is_printed_and_nothing_heavy_is_imported(folder, capfd):
    oomph.doctor([folder])
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    import subprocess
    import sys

    heavy = "{'torch', 'numpy', 'rich', 'libcst'}"
    program = f"import sys, oomph; oomph.doctor(sys.argv[1:]); print(sorted(set(sys.modules) & {heavy}))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
    )
    assert done.stdout == "[]\n"
    assert Path(folder / "smi.txt").read_text() == SMI
