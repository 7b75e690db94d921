"""Scratch memory of cuBLAS that stays."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.memory.categories import Category
from oomph.units import MIB, format_bytes

#: One handle has 8 to 32 MiB, a training process two of them: below this nothing is gained.
MIN_BYTES = 128 * MIB


class Workspaces(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM210"
    cause = "library_workspaces"
    name = "workspaces-hold-memory"
    means = (
        "cuBLAS keeps a workspace for each thread and stream that ever multiplied matrices (8.1 MiB, 32 MiB "
        "from Hopper on), allocated through PyTorch and never freed. Many streams or threads add up."
    )
    decisive_evidence = (
        "A memory snapshot with many blocks allocated by getCurrentCUDABlasHandle, or of exactly that size, "
        "alive at the failure; together they would have served the request."
    )
    first_action = "Fewer side streams and threads; or smaller workspaces (CUBLAS_WORKSPACE_CONFIG)."
    verify = "`oomph snapshot` shows the category workspace at a few tens of MiB."
    wrong_advice = "empty_cache(): workspaces are in use as long as their handle lives."
    actions = ("smaller-workspaces", "one-stream")

    def check(self, case: Case) -> Match | RuledOut | None:
        inside = case.inside
        failure = inside.failure if inside is not None else None
        if case.kind is not Kind.DEVICE_OOM or inside is None or failure is None:
            return None
        held = inside.bytes_of(Category.WORKSPACE)
        if held < MIN_BYTES:
            return None
        share = next(one for one in inside.device.shares if one.category is Category.WORKSPACE)
        enough = failure.short_by_bytes is not None and held >= failure.short_by_bytes
        says = f"{share.blocks} workspaces hold {format_bytes(held)}"
        if not enough:
            return RuledOut(self.cause, f"{says}, less than what was missing")
        return Match(
            Certainty.POSSIBLE if share.certainty is Certainty.POSSIBLE else Certainty.LIKELY,
            f"The memory snapshot shows it: {says}; without them the request would have fitted.",
            weight=0.5,
            numbers={"workspace_bytes": held, "workspaces": share.blocks},
        )
