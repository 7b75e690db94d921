"""The diagnosis in one line."""

from __future__ import annotations

from oomph.diagnose.model import Diagnosis, Outcome
from oomph.evidence.model import Kind
from oomph.phases import Phase
from oomph.units import format_bytes

_WHAT = {
    Kind.DEVICE_OOM: "{vendor} out of memory",
    Kind.DEVICE_OOM_BARE: "{vendor} out of memory (no figures printed)",
    Kind.DISGUISED: "A {library} error that is often memory",
    Kind.NCCL_OOM: "NCCL could not allocate its buffers",
    Kind.HOST_OOM: "Host memory (RAM) ran out",
    Kind.KILLED: "A process was killed with signal 9",
    Kind.SHM: "Shared memory (/dev/shm) ran out",
    Kind.MANAGED_OOM: "CUDA managed memory ran out",
    Kind.UNIFIED_OOM: "MPS out of memory",
    Kind.NOT_MEMORY: "Not an out-of-memory failure",
}
_IN = {
    Phase.EVAL: "evaluation",
    Phase.SAVE: "saving",
    Phase.LOAD: "loading",
    Phase.INIT: "set-up",
    Phase.GENERATE: "generation",
}


def summary_of(diagnosis: Diagnosis) -> str:
    """What failed, where, on which rank and GPU, and the best finding's cause."""
    incident = diagnosis.incident
    if incident is None:
        return "No out-of-memory failure found."
    failure = incident.failure
    text = _WHAT[failure.kind].format(
        vendor=failure.vendor.upper(),
        library=failure.detail.get("library", "library").replace("nvml", "NVML"),
    )
    if failure.kind is Kind.NOT_MEMORY:
        return text
    if "no_last_record" in failure.detail:
        text = f"A process ended without a last record ({failure.detail['no_last_record']})"
    if incident.phase.phase is not Phase.UNKNOWN:
        text += f" in {_IN.get(incident.phase.phase, str(incident.phase.phase))}"
    if diagnosis.ranks.first is not None:
        text += f" on rank {diagnosis.ranks.first}"
    if failure.device is not None:
        text += f" (GPU {failure.device})"
    request = failure.numbers.get("requested_bytes")
    if request is not None:
        text += f", asking for {format_bytes(request.bytes)}"
    if diagnosis.outcome is Outcome.RECOVERED:
        text += "; the job recovered"
    return text
