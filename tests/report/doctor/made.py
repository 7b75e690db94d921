"""Checkups without a check: what the renderers get."""

from __future__ import annotations

from typing import Any

from oomph.diagnose.machine.model import CheckFinding, Checkup, Problem, Severity, Told
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, Environment, HostFacts, TorchBuild, Variable
from oomph.evidence.environment.model import Told as Value
from oomph.evidence.model import Quote

GIB = 1 << 30
SMI = Quote(
    "nvidia-smi.txt", 3, "| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |"
)
LIVE = Quote("/proc/meminfo", 0, "MemTotal: 24684084 kB")


def finding(code="ENV101", severity=Severity.ERROR, certainty=Certainty.CERTAIN, **more):
    problem: dict[str, Any] = {
        "says": "The driver 470.82.01 does not run CUDA 12.1 builds: they need at least 525.60.13.",
        "does": "Every CUDA call fails: torch.cuda.is_available() is False.",
        "fix": "Install the build for CUDA 11.8, which this driver runs.",
        "paste": "pip install torch --index-url https://download.pytorch.org/whl/cu118",
        "subject": "driver",
        "numbers": {"wanted_bytes": 3 * GIB},
        "evidence": (SMI, LIVE, Quote("c.txt", 9, "third")),
        "wrong": "Installing another CUDA toolkit: PyTorch brings its own.",
    }
    return CheckFinding(
        code, "driver_too_old", "driver-too-old-for-the-cuda-build",
        Problem(severity=severity, certainty=certainty, **(problem | more)),
    )  # fmt: skip


def environment(**more):
    known: dict[str, Any] = {
        "sources": (("nvidia-smi.txt", "nvidia-smi"), ("env.txt", "environment variables")),
        "passed_over": (("train.py", "it is source code: --script looks at that"),),
        "hostname": Value("gpu07.cluster.example.org", SMI),
        "drivers": (Value("470.82.01", SMI),),
        "torch": (TorchBuild(SMI, "2.3.1", "cu121", "12.1"),),
        "cards": tuple(Card(SMI, index, name="Tesla T4", total_bytes=15 * GIB) for index in (0, 1)),
        "variables": (Variable("HF_TOKEN", "hf_NeverShownAnywhere0", "process", SMI),),
        "host": HostFacts(ram_bytes=Value(64 * GIB, LIVE)),
        "missing": {"cards": "there is no nvidia-smi on the path", "vcpus": "no /sys"},
    }  # fmt: skip
    return Environment(**(known | more))


def checkup(*findings, **more):
    known: dict[str, Any] = {
        "environment": environment(),
        "findings": findings,
        "clear": (Told("ENV106", "cudnn", "cudnn-differs", "clear", "cuDNN 8.9.2.26 is what torch pins"),),
        "untold": (
            Told(
                "ENV107", "nccl", "nccl-differs", "could not tell", "no list of packages: pip list tells it"
            ),
            Told("ENV204", "xid", "xid-events", "could not tell", "no kernel log: dmesg tells it"),
            Told(
                "ENV205",
                "others",
                "other-processes",
                "could not tell",
                "no list of packages: pip list tells it",
            ),
        ),
        "notes": ("Two drivers are told.",),
    }
    return Checkup(**(known | more))
