"""Memory that PyTorch had before went to something else."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind


class OutsideGrew(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM106"
    cause = "outside_grew"
    name = "memory-outside-pytorch-grew"
    means = (
        "Earlier in the run PyTorch had more of this device than it could have when the request failed. What "
        "is missing went to another process, to NCCL (a new communicator, the first all-to-all), or to a "
        "library that allocates by itself (CuPy, RAPIDS, a renderer, an inference engine)."
    )
    decisive_evidence = (
        "A memory snapshot: what PyTorch had reserved before, or reserved plus free at an earlier failure, exceeds "
        "reserved plus free at this one, and the difference would have served the request."
    )
    first_action = "Read nvidia-smi at the moment of failure and find out who took the memory."
    verify = (
        "Reserved plus free stays constant through the run (torch.cuda.mem_get_info() and memory_reserved())."
    )
    wrong_advice = "A smaller batch: the job fitted before, and what grows outside goes on growing."
    actions = ("collect-smi", "stop-process", "nccl-headroom")

    def check(self, case: Case) -> Match | None:
        failure = case.inside.failure if case.inside is not None else None
        if case.kind is not Kind.DEVICE_OOM or failure is None or str(failure.verdict) != "outside grew":
            return None
        return Match(
            failure.certainty,
            "The memory snapshot shows it: " + failure.says,
            weight=0.95,
            numbers={
                "growth_bytes": failure.outside_growth_bytes or 0,
                "request_bytes": failure.request_bytes,
            },
        )
