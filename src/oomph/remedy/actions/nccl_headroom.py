"""Room for NCCL outside PyTorch's pool."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.evidence.model import MemorySample
from oomph.remedy.actions.base import Action
from oomph.units import GIB, format_bytes

#: What is left for NCCL: communicators have been measured at 1.3 to 1.8 GiB with an all-reduce.
_ROOM = 2 * GIB


class NcclHeadroom(Action):
    """Cap PyTorch's pool below the whole card."""

    code = "nccl-headroom"
    title = "Leave about 2 GiB of each card outside PyTorch's pool"

    def step(self, case: Case, finding: Finding) -> Step:
        request = finding.numbers.get("requested_bytes")
        asked = f"NCCL asked for {format_bytes(request)}" if request else "NCCL asked for memory"
        sample = _last(case)
        held = ""
        if sample is not None:
            of = f" of {format_bytes(sample.total.bytes)}" if sample.total else ""
            held = f" when PyTorch had reserved {format_bytes(sample.value.bytes)}{of}"
        fraction = _fraction(case, sample)
        text = (
            f"{asked}{held}. A cap makes PyTorch give back cached blocks before it takes the last of the "
            "card, and leaves NCCL room to create its buffers, which it does at the first use of a "
            "communicator or collective. If PyTorch then fails with a message of its own, the job was too "
            "large by that much, and that message has numbers."
        )
        paste = (
            'device = int(os.environ["LOCAL_RANK"])   # on every rank, not only on GPU 0\n'
            f"torch.cuda.set_per_process_memory_fraction({fraction}, device)"
        )
        return self.make(
            text,
            paste,
            outcomes=(
                ("If it passes", "keep the cap, or lower the job's peak until it is not needed"),
                ("If PyTorch now reports out of memory", "explain that log: the job needs less memory"),
                (
                    "If NCCL still fails",
                    (
                        "fewer communicators or channels (NCCL_MAX_NCHANNELS), and look at what else is on "
                        "the card"
                    ),
                ),
            ),
        )


def _last(case: Case) -> MemorySample | None:
    found = case.samples("reserved", "max_reserved")
    return found[-1] if found else None


def _fraction(case: Case, sample: MemorySample | None) -> str:
    """The share that leaves _ROOM, from the printed size of the card; 0.95 where that is not known."""
    total = (
        sample.total.bytes
        if sample is not None and sample.total is not None
        else case.number("gpu_total_bytes")
    )
    if not total or total <= 2 * _ROOM:
        return "0.95"
    return f"{int(100 * (total - _ROOM) / total) / 100:.2f}"
