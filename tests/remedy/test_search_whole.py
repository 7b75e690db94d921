"""A search by a few layers, with levels kept between jobs, against one that composes every job whole."""

from __future__ import annotations

import pytest

from oomph.job.model import Batch, Checkpointing, Framework, Hardware, Job, Optimizer, Parallel, Precision
from oomph.job.names import model
from oomph.remedy.room import predicted
from oomph.remedy.search import fit

GIB = 1 << 30
AUTOCAST = Precision(weights="fp32", compute="bf16", autocast=True)


def job(strategy: str, ranks: int, capacity: int, **more: object) -> Job:
    return Job(
        model=model("Qwen/Qwen2.5-0.5B"),
        precision=AUTOCAST,
        parallel=Parallel(strategy=strategy, data=ranks),  # type: ignore[arg-type]
        framework=Framework(name="transformers"),
        hardware=Hardware(gpu="a10g", gpus=ranks, per_node=ranks, capacity_bytes=capacity * GIB),
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "asked",
    [
        job("none", 1, 10, batch=Batch(micro=2, sequence=1024)),
        job("ddp", 2, 12, batch=Batch(micro=2, sequence=1024, accumulation=2)),
        job(
            "fsdp2_full",
            4,
            10,
            batch=Batch(micro=4, sequence=1024),
            optimizer=Optimizer(impl="fused"),
            checkpointing=Checkpointing(mode="none"),
        ),
    ],
    ids=["one GPU", "DDP", "FSDP2"],
)
def test_the_answer_is_that_of_whole_predictions(asked):
    quick = fit(asked, replay=False)
    whole = fit(asked, replay=False, predictor=predicted)

    assert quick.complete
    assert quick.choices == whole.choices
    assert quick.choices
