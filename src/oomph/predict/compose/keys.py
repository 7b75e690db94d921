"""What decides how a piece is played, as keys under which pieces are kept."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from oomph.predict.compose.setup import Setup
from oomph.predict.sharding.sharded_qlora import is_sharded

#: A number for each key: to compare long keys takes longer than to find a piece.
_NUMBERS: dict[tuple[object, ...], int] = {}
_MOST_NUMBERS = 20_000
_NEXT = count()
_NAME = "_number_of_pieces"


@dataclass(frozen=True)
class Keyed:
    """A setup that compares equal to every other, so that the key beside it alone decides."""

    setup: Setup

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed)


def structure_of(setup: Setup) -> tuple[object, ...]:
    """What decides which operators run, and what is saved by which: neither the number of ranks, the optimizer or the
    accumulation, nor how large the batch is or how many processors the GPU has. A batch or a sequence of one is apart:
    programs and strides differ there."""
    job = setup.job
    return (
        setup.code,
        job.model,
        job.method,
        job.precision,
        job.batch.micro == 1,
        job.batch.sequence == 1,
        job.batch.padding,
        job.parallel.tensor,
        job.parallel.context,
        job.parallel.expert,
        setup.crowded,
        setup.split,
        setup.ring,
        is_sharded(job),
        None if job.method.lora is None else setup.adapters_dtype,
        job.attention,
        job.loss,
        job.compile,
        # Its name, and the versions of any library: what is cast before training, which of a layer's operators run.
        job.framework,
        setup.precision,
        setup.plain_layers,
        setup.outliers,
        setup.torch,
        generation_of(setup),
    )


def generation_of(setup: Setup) -> tuple[int, int] | None:
    """The first compute capability that runs the same operators (`_lacks_kernel`, engine/attention_kernel.py); None
    where no GPU is named."""
    return None if setup.gpu is None else min(setup.gpu.capability, (8, 0))


def key_of(setup: Setup) -> tuple[object, ...]:
    """What decides how a piece is played."""
    job = setup.job
    gpu = None if setup.gpu is None else setup.gpu.short_name
    return (*structure_of(setup), job.batch.micro, job.batch.sequence, gpu)


def number_of(setup: Setup) -> int:
    """A number that setups share whose keys differ in nothing but the GPU, of one generation."""
    known: int | None = setup.__dict__.get(_NAME)
    if known is None:
        key = (*structure_of(setup), setup.job.batch.micro, setup.job.batch.sequence)
        known = _NUMBERS.get(key)
        if known is None:
            if len(_NUMBERS) >= _MOST_NUMBERS:
                _NUMBERS.clear()
            known = _NUMBERS[key] = next(_NEXT)
        setup.__dict__[_NAME] = known
    return known
