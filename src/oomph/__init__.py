"""oomph: why a PyTorch job ran out of GPU memory, and which single change comes first.

The library never prints. The public names are loaded on first use, so that `import oomph` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Checkup",
    "Diagnosis",
    "Job",
    "OomphError",
    "Plan",
    "SnapshotReport",
    "__version__",
    "doctor",
    "explain",
    "plan",
    "record",
    "snapshot",
    "trace",
]

if TYPE_CHECKING:
    from oomph.api import explain, plan, snapshot, trace
    from oomph.api_doctor import doctor
    from oomph.diagnose.machine.model import Checkup
    from oomph.diagnose.model import Diagnosis
    from oomph.diagnose.snapshot.model import SnapshotReport
    from oomph.errors import OomphError
    from oomph.job.model import Job
    from oomph.predict.model import Plan
    from oomph.recording.api import record

_LAZY = {
    "doctor": "oomph.api_doctor",
    "explain": "oomph.api",
    "plan": "oomph.api",
    "record": "oomph.recording.api",
    "snapshot": "oomph.api",
    "trace": "oomph.api",
    "Checkup": "oomph.diagnose.machine.model",
    "Diagnosis": "oomph.diagnose.model",
    "SnapshotReport": "oomph.diagnose.snapshot.model",
    "OomphError": "oomph.errors",
    "Job": "oomph.job.model",
    "Plan": "oomph.predict.model",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'oomph' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
