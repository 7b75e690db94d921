"""A CUDA device without a GPU, in processes of their own: it lasts as long as the process."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from oomph.errors import UsageError
from oomph.tracing.device import arm

ROOT = Path(__file__).parents[3]


def run(program: str) -> str:
    pytest.importorskip("torch", reason="tracing needs PyTorch")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_autograd_runs_for_fake_cuda_tensors_and_the_cpu_works_as_before():
    said = run(
        """
        import os, torch
        from oomph.tracing.device.arm import arm, is_armed
        # Before: none in a CPU build, in a CUDA build what it was built for. torch 2.4 does not say.
        def accelerator():
            return torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else "cuda"
        print(is_armed(), torch.version.cuda is not None or accelerator() is None)
        arm()
        arm()
        print(is_armed(), accelerator(), torch.cuda.is_available())
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            layer = torch.nn.Linear(4, 2, device="cuda")
            layer(torch.ones(3, 4, device="cuda")).sum().backward()
            print(tuple(layer.weight.grad.shape), layer.weight.grad.device)
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        print(x.grad.tolist(), torch.ones(2).pin_memory().tolist(), torch.empty(2, pin_memory=True).shape[0])
        import sys
        sys.stdout.flush()
        os._exit(0)
        """
    )
    assert said.splitlines() == [
        "False True",
        "True cuda False",
        "(2, 4) cuda:0",
        "[2.0, 2.0, 2.0] [1.0, 1.0] 2",
    ]


def test_where_c10_has_no_guard_for_absent_devices_one_of_our_own_serves():
    # As in torch 2.4 to 2.8 or so, which lack this function.
    said = run(
        """
        import os, sys, torch
        if hasattr(torch._C, "_ensureCUDADeviceGuardSet"):
            del torch._C._ensureCUDADeviceGuardSet
        from oomph.tracing.device import arm, check
        arm.arm()
        torch._C._ensureCUDADeviceGuardSet = lambda: None  # FakeTensorMode calls it
        check.step(torch)
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            print(torch.ones(2).to("cuda").device, torch.ones(2, device="cuda:3").device)
        sys.stdout.flush()
        os._exit(0)
        """
    )
    assert said == "cuda:0 cuda:3\n"


def test_a_process_that_armed_ends_without_a_crash():
    # The libraries call into the tables while they are torn down.
    assert run("import torch; from oomph.tracing.device.arm import arm; arm(); print('end')") == "end\n"


@pytest.mark.parametrize(
    ("system", "machine", "version", "hip", "sentence"),
    [
        ("darwin", "arm64", "2.13.0", None, "works on Linux only"),
        ("win32", "AMD64", "2.13.0", None, "works on Linux only"),
        ("linux", "ppc64le", "2.13.0", None, "not on ppc64le"),
        ("linux", "x86_64", "2.3.1+cpu", None, "needs torch 2.4 or later; 2.3.1+cpu is installed"),
        ("linux", "x86_64", "2.8.0", "6.3", "the installed one is for ROCm"),
    ],
)
def test_where_it_cannot_work_it_says_so(monkeypatch, system, machine, version, hip, sentence):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    torch = SimpleNamespace(__version__=version, version=SimpleNamespace(hip=hip))
    with pytest.raises(UsageError, match=re.escape(sentence)):
        arm._check_platform(torch)


def test_gpus_are_hidden_and_the_environment_stays(monkeypatch):
    torch = pytest.importorskip("torch", reason="tracing needs PyTorch")
    seen = []
    monkeypatch.setattr(
        torch._C,
        "_cuda_getDeviceCount",
        lambda: seen.append(os.environ["CUDA_VISIBLE_DEVICES"]),
        raising=False,
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    arm.hide_gpus()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    arm.hide_gpus()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert seen == ["", ""]


def test_versions_with_a_suffix_are_read(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    arm._check_platform(SimpleNamespace(__version__="2.14.0a0+git12ab", version=SimpleNamespace(hip=None)))
