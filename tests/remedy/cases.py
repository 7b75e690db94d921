"""Small cases for tests of rules and actions: a text as a tool prints it, and what else the log is to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from oomph.diagnose.case import Case
from oomph.diagnose.incidents import group
from oomph.diagnose.model import Certainty, Finding, PhaseVerdict
from oomph.diagnose.rules import rule_for
from oomph.evidence.lines import build_document
from oomph.evidence.model import Evidence, Fact, Frame, MemorySample, Position, Quote, Traceback
from oomph.evidence.read import parse
from oomph.phases import Phase
from oomph.units import Amount

#: 508.00 - 430.44 = 77.56 MiB short; 481.28 MiB of cache could not hold the request.
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 508.00 MiB. GPU 0 has a total capacity of "
    "23.69 GiB of which 430.44 MiB is free. Including non-PyTorch memory, this process has 23.26 GiB memory in use. "
    "Of the allocated memory 21.94 GiB is allocated by PyTorch, and 481.28 MiB is reserved by PyTorch but "
    "unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
    "Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)
#: 3.00 GiB asked, 0.50 GiB free, 9.00 GiB cached: large enough in all, in no piece.
FRAGMENTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of "
    "40.00 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 39.50 GiB memory in use. "
    "Of the allocated memory 30.00 GiB is allocated by PyTorch, and 9.00 GiB is reserved by PyTorch but unallocated."
)
#: One neighbour of 20.00 GiB, one bare context.
NEIGHBOUR = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.50 GiB "
    "of which 1.00 GiB is free. Process 4242 has 20.00 GiB memory in use. Process 4300 has 300.00 MiB memory in use. "
    "Including non-PyTorch memory, this process has 18.20 GiB memory in use. Of the allocated memory 17.00 GiB is "
    "allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated."
)
#: 12.00 GiB allowed of 24.00 GiB, 11.00 GiB free.
CAPPED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB "
    "of which 11.00 GiB is free. 12.00 GiB allowed; Of the allocated memory 11.50 GiB is allocated by PyTorch, and "
    "100.00 MiB is reserved by PyTorch but unallocated."
)


def case_of(
    text: str = OOM,
    *,
    phase: Phase = Phase.FORWARD,
    facts: Mapping[str, str | int] | None = None,
    frames: Sequence[tuple[str, str, str]] = (),
    samples: Sequence[MemorySample] = (),
    recompute: bool = False,
    vendor: str = "",
) -> Case:
    """The case of the first failure in `text`. `frames` are (file, function, code), outermost first."""
    document = build_document("train.log", [(1, text)])
    evidence = parse([document])
    start = Position(0, 0)
    quote = Quote("train.log", 1, "a line of the log")
    added = tuple(Fact(name, str(value), start, quote) for name, value in (facts or {}).items())
    evidence = replace(evidence, facts=(*evidence.facts, *added), samples=(*evidence.samples, *samples))
    one = group(evidence)[0]
    if vendor:
        one.prints[:] = [replace(failure, vendor=vendor) for failure in one.prints]
    if frames:
        chain = tuple(
            Frame(file, number, function, code, position=start)
            for number, (file, function, code) in enumerate(frames, 1)
        )
        one.traceback = Traceback(chain, "torch.OutOfMemoryError", "CUDA out of memory.", start, one.end)
    verdict = PhaseVerdict(
        phase, "none" if phase is Phase.UNKNOWN else "frame", "as the test says", recompute=recompute
    )
    return Case(evidence, one, verdict)


def sample(what: str, size_bytes: int, total_bytes: int | None = None) -> MemorySample:
    """A memory figure that stands before the failure."""
    quote = Quote("train.log", 1, f"{what} {size_bytes}")
    total = Amount(total_bytes) if total_bytes is not None else None
    return MemorySample(what, Amount(size_bytes), Position(0, 0), quote, total=total)


def finding_of(
    cause: str,
    *actions: str,
    certainty: Certainty = Certainty.LIKELY,
    numbers: Mapping[str, int] | None = None,
    score: float = 2.5,
) -> Finding:
    """A finding of the rule that stands for `cause`."""
    rule = rule_for(cause)
    assert rule is not None, cause
    return Finding(
        rule.code, cause, rule.name, certainty, "", numbers=dict(numbers or {}), actions=actions, score=score
    )


def evidence_of(text: str) -> Evidence:
    """All that is read from a text."""
    return parse([build_document("train.log", [(1, text)])])
