"""Several ranks of the job sit on one GPU."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.units import format_bytes


class SiblingRanks(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM102"
    cause = "sibling_ranks_on_one_gpu"
    name = "several-ranks-share-one-gpu"
    means = (
        "Other ranks of the same job have memory on this rank's GPU, because they used `cuda` or `cuda:0` before, or "
        "instead of, their own device. Each costs at least a context, often a whole model."
    )
    decisive_evidence = (
        "The message lists pids that the launcher's lines name as ranks of this job, or neighbouring pids with about "
        "the same memory in a job with several ranks."
    )
    first_action = (
        "Call torch.cuda.set_device(local_rank) before anything else touches CUDA, and move models and tensors to "
        'that device, not to a bare "cuda".'
    )
    verify = "nvidia-smi shows one python process per GPU; the message's process list is gone."
    wrong_advice = "Killing the listed pids as zombies: they are the job's own ranks."
    actions = ("set-device",)

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind is not Kind.DEVICE_OOM:
            return None
        siblings = case.neighbours.of("sibling")
        if not siblings:
            return None
        held = case.neighbours.bytes_of("sibling")
        request = case.request_bytes or 0
        free = case.ledger.free_bytes or 0
        proved = all("by the log" in one.why for one in siblings)
        decisive = held + free >= request
        who = ", ".join(str(one.pid) for one in siblings)
        says = (
            f"{len(siblings)} other rank(s) of this job (pids {who}) hold {format_bytes(held)} on this GPU"
            + (f"; without them the {format_bytes(request)} request would have fitted." if decisive else ".")
        )
        if not decisive:
            return Match(Certainty.POSSIBLE, says, weight=0.6, numbers={"siblings_bytes": held})
        return Match(
            Certainty.CERTAIN if proved else Certainty.LIKELY,
            says,
            weight=0.3 if proved else 0.9,
            numbers={"siblings_bytes": held, "siblings": len(siblings)},
        )
