"""Choices that fit the card, and the RAM of the machine that they need."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.predict.model import Plan
from oomph.remedy.changes.meta_load import MetaLoad


@dataclass(frozen=True)
class Shortage:
    """What a machine lacks for a choice, in bytes: `needs` while `loading` or (False) while training, `has`."""

    needs: int
    has: int
    loading: bool


def shortage(plan: Plan, one_copy: bool = False) -> Shortage | None:
    """What the machine lacks; None where it has enough, or where one of the two is not known. `one_copy`: weights are
    loaded once on each machine, and not by every rank."""
    has, host = plan.job.hardware.host_bytes, plan.host
    if has is None or host is None:
        return None
    if host.train_bytes > has:
        return Shortage(host.train_bytes, has, loading=False)
    ranks = min(plan.job.hardware.per_node or plan.job.parallel.ranks, plan.job.parallel.ranks)
    load = host.load_bytes // max(1, ranks) if one_copy else host.load_bytes
    return Shortage(load, has, loading=True) if load > has else None


def loads_once(plan: Plan) -> MetaLoad | None:
    """The change that mends a shortage of RAM at load: weights that rank 0 alone reads. None where nothing is short,
    or where that does not help."""
    found = shortage(plan)
    if found is None or not found.loading or MetaLoad().applies(plan.job) is not None:
        return None
    return MetaLoad() if shortage(plan, one_copy=True) is None else None
