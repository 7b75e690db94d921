"""Plans made by hand, of which everything is known."""

from __future__ import annotations

from oomph.job.model import Batch, Framework, Hardware, Job, Lora, Method, Model, Parallel, Precision
from oomph.memory.categories import Category
from oomph.memory.prediction import Prediction
from oomph.phases import Phase
from oomph.predict.model import Host, Outside, PhasePeak, Plan, RankPlan, Term

GIB = 1 << 30
MIB = 1 << 20

JOB = Job(
    model=Model(name="acme/decoder-8b", family="llama"),
    precision=Precision(compute="bf16", autocast=True),
    batch=Batch(micro=2, sequence=8192, accumulation=4),
    parallel=Parallel(strategy="fsdp2_full", data=8),
    framework=Framework("transformers", (("torch", "2.9"), ("transformers", "5.1"))),
    hardware=Hardware(gpu="a100-40gb", machine="a2-highgpu-8g", gpus=8, host_bytes=680 * GIB),
)
ADAPTERS = Method(name="qlora", lora=Lora(rank=16))

#: 20 + 8 + 4 + 3 + 1 GiB.
TERMS = (
    Term("saved activations of 32 blocks", Category.ACTIVATIONS, 20 * GIB, "block"),
    Term("logits", Category.ACTIVATIONS, 3 * GIB, "loss"),
    Term("AdamW's moments", Category.OPTIMIZER_STATE, 8 * GIB, "optimizer-adam"),
    Term("shards", Category.PARAMETERS, 4 * GIB, "sharding-fsdp2"),
    Term("all-gathered block", Category.COMMUNICATION, 1 * GIB, "sharding-fsdp2"),
)


def peak(
    phase: Phase, allocated: int, low: int, high: int, reserved: tuple[int, int, int] | None = None, **more
) -> PhasePeak:
    held = reserved or (None, None, None)
    return PhasePeak(
        phase,
        allocated * GIB,
        low * GIB,
        high * GIB,
        reserved_bytes=None if held[0] is None else held[0] * GIB,
        reserved_low_bytes=None if held[1] is None else held[1] * GIB,
        reserved_high_bytes=None if held[2] is None else held[2] * GIB,
        **more,
    )


def rank(*, played: bool = True, ranks: str = "all 8 ranks", first: int = 0, replay=None) -> RankPlan:
    """Load 4 GiB; forward 30 (29 to 31); backward 36 (35 to 37), reserved 37 (36 to 39)."""
    phases = (
        peak(Phase.LOAD, 4, 4, 4, (4, 4, 4) if played else None),
        peak(Phase.FORWARD, 30, 29, 31, (31, 30, 33) if played else None, terms=TERMS[1:]),
        peak(Phase.BACKWARD, 36, 35, 37, (37, 36, 39) if played else None, terms=TERMS, where="the loss"),
    )
    outside = Outside(
        600 * MIB, 3 * GIB, (("CUDA context", 300 * MIB, 1 * GIB), ("NCCL", 300 * MIB, 2 * GIB)), 1 * GIB
    )
    return RankPlan(ranks, first, {each.phase: each for each in phases}, 12 * GIB, outside, replay)


#: What NCCL takes at the most: the capacity is given without it.
NCCL = 2


def plan(
    fits: bool | None = True, capacity_gib: int | None = 60, fails_in: Phase | None = None, **more
) -> Plan:
    """`capacity_gib` is what the allocator can have."""
    fields = {
        "ranks": (rank(),),
        "assumptions": ("Precision: fp32 weights, bf16 autocast; nothing says it (--precision).",),
        "notes": ("The head and the embedding are one tensor.",),
        "host": Host(120 * GIB, 10 * GIB, (("eight copies of the weights", 120 * GIB),)),
        "parameters": 8_030_261_248,
        "trainable": 8_030_261_248,
    }
    capacity = None if capacity_gib is None else (capacity_gib + NCCL) * GIB
    return Plan(JOB, capacity_bytes=capacity, fits=fits, fails_in=fails_in, **{**fields, **more})


def refused(*asked: str) -> Plan:
    return Plan(JOB, (), None, None, None, (), asked)


def played(failed: int, of: int = 8) -> Prediction:
    """What the allocator's play says, of which `failed` of `of` orders of addresses ran out."""
    ran_out = [Phase.BACKWARD] * failed + [None] * (of - failed)
    return Prediction.judged(0, 0, {}, 38 * GIB, ran_out)
