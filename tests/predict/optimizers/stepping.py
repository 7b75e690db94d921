"""What real optimizers allocate in their first and second step, and what a stepper says that they do."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from oomph.phases import Phase
from oomph.predict.optimizers.base import Stepper
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding.base import UnitParameter
from tests.tracing.programs import traced

#: Sizes that are no multiples of 512 bytes, vectors between matrices, and a large one that is not the first.
SHAPES = ((100, 70), (70,), (301, 257), (257,), (64, 1000), (33, 7), (5000, 11))

_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}

_STEPS = """
import json
{setup}
params = []
for shape, dtype in {tensors}:
    p = torch.nn.Parameter(torch.zeros(shape, dtype=getattr(torch, dtype), device="cuda"))
    p.grad = torch.zeros_like(p)
    params.append(p)
a = torch.zeros(8, 8, device="cuda"); b = a @ a; c = a.bfloat16(); d = c @ c; del b, d
named = params
optimizer = {make}
seen = []
start = torch.cuda.memory_allocated()
for _ in range(2):
    torch.cuda.reset_peak_memory_stats()
    optimizer.step()
    seen.append((torch.cuda.max_memory_allocated() - start, torch.cuda.memory_allocated() - start))
print(json.dumps(seen))
"""


@dataclass(frozen=True)
class Steps:
    """Bytes above what was allocated before the first step: peak and end of the first and of the second step."""

    first_peak: int
    first_end: int
    second_peak: int
    second_end: int


def real(make: str, tensors: Sequence[tuple[tuple[int, ...], str]], setup: str = "") -> Steps:
    """Two steps of the optimizer that the expression `make` gives over `params`, traced."""
    text = _STEPS.format(make=make, tensors=[(list(s), d) for s, d in tensors], setup=textwrap.dedent(setup))
    (one, two) = json.loads(traced(text).printed.splitlines()[-1])
    return Steps(one[0], one[1], two[0], two[1])


def parameters(
    tensors: Sequence[tuple[tuple[int, ...], str]], names: Sequence[str] = ()
) -> tuple[UnitParameter, ...]:
    """The same tensors as parameters of a plan."""
    return tuple(
        UnitParameter(
            name=names[place] if names else f"p{place}",
            numel=prod(shape),
            trainable=True,
            weight_bytes=_BYTES[dtype],
            compute_bytes=_BYTES[dtype],
            grad_bytes=_BYTES[dtype],
            shape=shape,
        )
        for place, (shape, dtype) in enumerate(tensors)
    )


def said(stepper: Stepper, params: tuple[UnitParameter, ...]) -> Steps:
    """Two steps of a stepper."""
    sink = PeakSink()
    ends = []
    for first, phase in ((True, Phase.OPTIMIZER), (False, Phase.EVAL)):
        sink.phase(phase)
        stepper.step(sink, params, first)
        ends.append(sink.current_bytes)
    peaks = sink.peaks()
    return Steps(peaks[Phase.OPTIMIZER].bytes, ends[0], peaks[Phase.EVAL].bytes, ends[1])


def of(dtype: str, shapes: Sequence[tuple[int, ...]] = SHAPES) -> list[tuple[tuple[int, ...], str]]:
    """All shapes in one dtype."""
    return [(shape, dtype) for shape in shapes]


#: Two dtypes, so that torch.optim makes two groups of them.
MIXED = [(shape, "bfloat16" if place % 3 else "float32") for place, shape in enumerate(SHAPES)]
