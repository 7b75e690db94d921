"""`oomph plan` beside `oomph trace` on Llama 3.1 8B: every phase's peak, and how long each takes.

    python benchmarks/bench_plan_vs_trace.py [--only WORD]

The set-ups of tests/predict/grid at the size that people train: full fine-tuning and LoRA with checkpoints in bf16,
batches of 1 and 2 with 2,048 tokens on one GPU, and FSDP2 over 8 ranks (fp32 shards, bf16 compute), rank 0. The loop is
a plain one of PyTorch around transformers' class; it is traced as `oomph trace` does, in a process that has imported
torch already. Printed for each phase: what the plan says, what the trace has, their ratio (promised: within 1 %); and
the seconds of both with their ratio. The exit code is 1 where a phase is further away.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.predict.grid.cases import Case
from tests.predict.grid.running import Tracer, planned

MOST = 0.01
#: config.json of meta-llama/Llama-3.1-8B.
LLAMA = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}


def cases() -> list[Case]:
    """What is compared."""
    found = [
        Case(f"{name}, batch {batch}", batch=batch, sequence=2048, checkpointing=True, lora=lora, more=LLAMA)
        for name, lora in (("full, bf16", ()), ("LoRA, bf16", ("q_proj", "v_proj")))
        for batch in (1, 2)
    ]
    sharded = Case(
        "full, FSDP2 on 8 ranks, batch 1",
        batch=1,
        sequence=2048,
        checkpointing=True,
        precision="bf16-autocast",
        strategy="fsdp2_full",
        ranks=8,
        more=LLAMA,
    )
    return [*found, sharded]


def main() -> int:
    """Prints; 1 where a phase is further than `MOST` from its trace."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name has this word")
    word = parser.parse_args().only
    tracer, far = Tracer(), False
    for case in cases():
        if word not in case.name:
            continue
        began = time.perf_counter()
        traced = tracer.peaks(case)
        between = time.perf_counter()
        found = planned(case)
        took, planning = between - began, time.perf_counter() - between
        print(f"Llama 3.1 8B, {case.name}")
        for phase, size in traced.items():
            ratio = found[phase] / size
            far = far or abs(ratio - 1) > MOST
            print(
                f"  {phase:<10} plan {found[phase] / 2**30:7.2f} GiB  trace {size / 2**30:7.2f} GiB  {ratio:.4f}"
            )
        print(
            f"  time       plan {planning:7.2f} s    trace {took:7.2f} s    {planning / took:.4f}", flush=True
        )
    tracer.close()
    return int(far)


if __name__ == "__main__":
    sys.exit(main())
