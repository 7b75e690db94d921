"""Where a recomputation ends is remembered for all sizes of batches, and for GPUs of one compute capability."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest

from oomph.job.model import Batch, Checkpointing, Framework, Hardware, Job, Lora, Method, Precision
from oomph.job.names import model
from oomph.job.resolve import resolve
from oomph.predict.compose import block_piece, pieces
from oomph.predict.compose.keys import Keyed, structure_of
from oomph.predict.compose.run import setup_of
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.piece import build
from oomph.predict.frameworks import variants


def setup(name: str, micro: int, sequence: int, gpu: str, method: Method) -> Setup:
    job = resolve(
        Job(
            model=model(name),
            precision=Precision(weights="fp32", compute="bf16", autocast=True),
            method=method,
            batch=Batch(micro=micro, sequence=sequence),
            checkpointing=Checkpointing(mode="full"),
            framework=Framework(name="transformers"),
            hardware=Hardware(gpu=gpu, gpus=1),
        )
    )[0]
    return setup_of(job, variants(job)[0])


@pytest.mark.parametrize(
    "name",
    ["Qwen/Qwen2.5-0.5B", "openai-community/gpt2", "google/gemma-2-2b", "google-bert/bert-base-uncased"],
)
@pytest.mark.parametrize("method", [Method(), Method(name="lora", lora=Lora(rank=8))], ids=["full", "lora"])
def test_it_depends_on_the_structure_alone(name, method):
    """Worked out anew by whole builds, with backward, for each size."""
    found = defaultdict(set)
    for micro, sequence, gpu in itertools.product((1, 2, 8), (128, 500), ("a100-80gb", "a30", "l4", "t4")):
        its = setup(name, micro, sequence, gpu, method)
        for accumulates in (False, True):
            mode = pieces.Mode(pinned=True, early_stop=True, accumulates=accumulates, kind=its.kind(0))
            scope = pieces.scope_of(its, mode)
            build(scope, pieces.section(its, mode.kind), requires=True, pinned=True)
            ends = (scope.last_save, scope.saves_results, scope.last_added)
            found[structure_of(its), id(its.program), accumulates].add(ends)
            assert block_piece._last_save(object(), Keyed(its), mode) == ends
    assert len(found) < 3 * 2 * 4 * 2
    assert all(len(each) == 1 for each in found.values())
