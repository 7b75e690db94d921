"""Expert parallelism: what one rank has of the experts, how many rows come to it, what is not modelled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from oomph.job.families import dimensions
from oomph.job.model import Job
from oomph.predict.compose import experts
from oomph.predict.sharding.base import UnitParameter

#: Whose experts are spread as torchtitan spreads them; "": nobody's that is named.
_TITANS = frozenset(("", "pytorch", "torchtitan"))
#: What the others do, by how their names begin.
_OTHERWISE = {
    "megatron": "Megatron-LM's own dispatchers and gradient buffers",
    "nemo": "Megatron-LM's own dispatchers and gradient buffers",
    "deepspeed": "DeepSpeed's layers of experts, with a capacity",
    "transformers": "each rank computes its experts for the tokens of all",
    "trl": "each rank computes its experts for the tokens of all",
    "accelerate": "each rank computes its experts for the tokens of all",
    "axolotl": "each rank computes its experts for the tokens of all",
}
_STRATEGIES = ("fsdp2_full", "fsdp2_no_reshard")
#: How many times the mean of rows the interval reaches to: a choice, not a measurement. Routers are trained to ask for
#: all experts equally, and a rank has several, so few ranks come near it; nothing keeps one from getting more.
CROWD = 2


def rows(job: Job, dims: dict[str, int], *, crowded: bool) -> dict[str, int]:
    """The dimensions that `engine.expert_parallel.spread` asks for: where all experts are asked for equally, or on a
    rank to which CROWD times as many rows come. No more come than all ranks make."""
    ranks, own = job.parallel.expert, dims["b"] * dims["s"] * dims["top_k"]
    routed = own * min(ranks, CROWD) if crowded else own
    return {"routed": routed, "local_experts": dims["experts"] // ranks}


@lru_cache(maxsize=4096)
def divided(parameter: UnitParameter, ranks: int, along: int) -> UnitParameter:
    """One rank's experts of a parameter that holds all. FSDP cuts it along dimension `along`, which comes first."""
    count, *rest = parameter.shape
    shape = (count // ranks, *rest)
    return replace(
        parameter,
        numel=parameter.numel // ranks,
        shape=(shape[along], *shape[:along], *shape[along + 1 :]),
    )


def cut_along(job: Job) -> int:
    """The dimension of experts that FSDP cuts: the second where there are more ranks than experts
    (torchtitan/distributed/fsdp.py, expert_shard_placement)."""
    ranks = job.parallel.data * job.parallel.context
    return 1 if ranks > dimensions(job.model).get("experts", ranks) else 0


def missing(job: Job) -> Iterator[str]:
    """What of expert parallelism is not modelled."""
    parallel, name = job.parallel, job.framework.name.lower()
    if parallel.expert == 1:
        return
    if name not in _TITANS:
        what = next((what for start, what in _OTHERWISE.items() if name.startswith(start)), "")
        yield f"expert parallelism under {job.framework.name}" + (f" ({what})" if what else "")
    if job.model.family not in experts.FAMILIES:
        yield f"expert parallelism of the family {job.model.family}"
    if job.model.family == "gpt_oss":
        yield "expert parallelism of experts that have biases (gpt_oss)"
    if parallel.strategy not in _STRATEGIES:
        yield f"expert parallelism with {parallel.strategy} in place of FSDP2"
    for ranks, other in (
        (parallel.tensor, "tensor"),
        (parallel.context, "context"),
        (parallel.pipeline, "pipeline"),
    ):
        if ranks > 1:
            yield f"expert parallelism beside {other} parallelism"
    if job.method.name != "full" or job.method.frozen:
        yield "frozen parameters beside expert parallelism"
    if job.compile:
        yield "torch.compile of layers with expert parallelism"
    if job.evaluation.generate:
        yield "generation with expert parallelism"


def assumptions(job: Job) -> Iterator[str]:
    """What is taken for granted of expert parallelism."""
    if job.parallel.expert == 1:
        return
    yield (
        "Experts are spread as torchtitan spreads them: rows go to their experts' ranks and back in two all-to-alls, "
        "and FSDP units are gathered one ahead."
    )
    yield (
        "As many rows come to this rank's experts as its tokens make. The interval reaches to a rank to which "
        f"{CROWD} times as many come; what the router asks for decides, and all could come to one "
        f"({job.parallel.expert} times as many)."
    )
