"""Jobs that tests of changes start from, and a prediction that is arithmetic."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.job.model import (
    Batch,
    Dimension,
    Evaluation,
    Framework,
    Hardware,
    Job,
    Model,
    Parallel,
    Precision,
)
from oomph.phases import Phase
from oomph.predict.model import Outside, PhasePeak, Plan, RankPlan

GIB = 2**30

#: h = 64, I = 128, 4 layers, 8 heads of 8, 4 of keys and values, V = 1000, untied.
LLAMA = Model(
    name="tiny",
    family="llama",
    config=tuple(
        Dimension(key=key, value=value)
        for key, value in sorted(
            {
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 4,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "max_position_embeddings": 4096,
                "vocab_size": 1000,
                "tie_word_embeddings": False,
            }.items()
        )
    ),
)
#: Its weights: embedding and head, per layer q o, k v, three of the MLP and two norms, and the last norm.
LAYER = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128
WEIGHTS = 2 * 1000 * 64 + 4 * (LAYER + 2 * 64) + 64
#: Those that every token is multiplied with.
PRODUCTS = 1000 * 64 + 4 * LAYER

ONE = Job(
    model=LLAMA,
    precision=Precision(weights="fp32", compute="bf16", autocast=True),
    batch=Batch(micro=8, sequence=2048),
    hardware=Hardware(gpu="a100-80gb"),
    framework=Framework(name="transformers"),
)
EIGHT = replace(
    ONE,
    parallel=Parallel(strategy="ddp", data=8),
    hardware=Hardware(gpu="a100-80gb", gpus=8),
)
WITH_EVALUATION = replace(ONE, evaluation=Evaluation(batch=8, keep_logits=True, generate=256))


def needs(
    job: Job, load: int = 2, state: int = 40, activations: int = 80, logits: int = 40
) -> dict[Phase, int]:
    """A made-up prediction in GiB of the whole job: each setting has the effect that it has in kind."""
    shards = job.parallel.data if job.parallel.strategy.startswith(("fsdp", "zero")) else 1
    half = 1 if job.precision.weights == "fp32" or job.precision.master else 2
    whole = job.parallel.strategy not in ("fsdp1_full_shard", "fsdp2_full", "zero3")
    weights = load * GIB // half // (1 if whole else shards)
    states = 0 if job.optimizer.offload != "none" else state * GIB // shards // half
    states = states // 50 if job.method.lora is not None else states
    states = states // 4 if job.optimizer.state == "int8" else states
    tokens = job.batch.micro * (job.batch.sequence or 1) / (8 * 2048)
    kept = {"none": 1.0, "full": 0.1, "every_n": 0.55, "selective_op": 0.5}[job.checkpointing.mode]
    alive = int(tokens * kept * activations * GIB)
    alive = alive // 10 if job.activation_offload else alive
    loss = 0 if job.loss == "fused_linear_ce" else int(tokens * logits * GIB)
    step = states // 2 if job.optimizer.impl == "foreach" else 0
    return {
        Phase.LOAD: weights,
        Phase.FORWARD: weights + states + alive + loss,
        Phase.BACKWARD: weights + states + alive + loss // 2,
        Phase.OPTIMIZER: weights + states + step,
    }


def plan_of(job: Job, capacity: int, phases: dict[Phase, int]) -> Plan:
    """A plan with these peaks and no uncertainty."""
    peaks = {phase: PhasePeak(phase, size, size, size) for phase, size in phases.items()}
    rank = RankPlan("the only rank", 0, peaks, 0, Outside(0, 0))
    failing = [phase for phase, size in phases.items() if size > capacity]
    return Plan(job, (rank,), capacity, not failing, failing[0] if failing else None)
