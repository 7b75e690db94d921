"""Buffers of NCCL that are tiny, huge or of an odd size."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.nccl_values import number
from oomph.diagnose.machine.settings import in_effect
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Variable
from oomph.units import KIB, MIB, format_bytes

#: src/init.cc of NCCL: DEFAULT_BUFFSIZE; facts of its device.h give the other two.
_DEFAULTS = {"NCCL_BUFFSIZE": 4 * MIB, "NCCL_LL_BUFFSIZE": 524_288, "NCCL_LL128_BUFFSIZE": 4_915_200}
#: A buffer is used in eight steps, and a chunk of send and receive is at most one of them (computeBuffSizes): from
#: 1 MiB down, chunks are below the 128 KiB that NCCL takes by itself between machines.
_STEPS = 8
_TINY = MIB
_CHUNK = 128 * KIB
#: Google's profiles set 8 MiB; eight times the default has no advocate that was found.
_HUGE = 32 * MIB
#: LL: 8 lines x 512 threads x 16 bytes of each step. LL128: 120 of 128 bytes carry data (issue NVIDIA/nccl#1739).
_UNITS = {"NCCL_LL_BUFFSIZE": 8 * 512 * 16, "NCCL_LL128_BUFFSIZE": 120}
_CHANNELS = 32


class NcclBuffsize(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV405"
    cause = "nccl_buffsize"
    name = "nccl-buffsize"
    means = (
        "NCCL allocates a buffer of NCCL_BUFFSIZE bytes (4 MiB by default) for each receiving connection of each "
        "channel, outside PyTorch's allocator. A smaller one saves tens of MiB and costs bandwidth; a huge one is "
        "multiplied by channels and peers. LL and LL128 have buffers of their own that must be whole lines."
    )
    decisive_evidence = "The value in bytes, as NCCL reads it: `4MB` is 4 bytes."
    first_action = "Remove the variable, or write the plain number of bytes."
    verify = "NCCL_DEBUG=INFO prints `NCCL_BUFFSIZE set by environment to 4194304`."
    wrong_advice = (
        "NCCL_BUFFSIZE=1048576 against out-of-memory: fewer channels (NCCL_MAX_NCHANNELS) save in proportion."
    )

    def check(self, asked: Asked) -> Answer:
        problems: list[Problem] = []
        fine: list[str] = []
        untold = ""
        for one in in_effect(asked.environment, "NCCL_"):
            if one.name not in _DEFAULTS or one.value == "":
                continue
            if one.value is None:
                untold = f"the text does not say what {one.name} becomes"
                continue
            found = _judge(one, one.value)
            if isinstance(found, Problem):
                problems.append(found)
            else:
                fine.append(found)
        if problems:
            return tuple(problems)
        if untold:
            return CouldNotTell(untold)
        return Clear("; ".join(fine)) if fine else NotHere()


def _judge(one: Variable, value: str) -> Problem | str:
    default = _DEFAULTS[one.name]
    read = number(value)
    size = read.value
    if size is None or size == -2:  # -2 stands for the default, in computeBuffSizes
        return f"{one.name} is at its default, {default} bytes"
    numbers = {"buffer_bytes": size, "default_bytes": default}
    if not read.whole or size <= 0:
        return _problem(
            one,
            f"{one.name}={value} is read as {size} bytes.",
            "NCCL makes buffers of that size: the first collective fails, hangs or crawls.",
            f"Write bytes without a unit, or remove it (the default is {default}).",
            numbers,
            Severity.ERROR,
        )
    unit = _UNITS.get(one.name)
    if unit is not None and size % unit:
        return _problem(
            one,
            f"{one.name}={size} is no multiple of {unit} bytes, of which the protocol's lines are made.",
            "Collectives can hang or give wrong sums.",
            f"Remove it (the default is {default}).",
            numbers,
            Severity.WARNING,
            Certainty.LIKELY,
        )
    if one.name == "NCCL_BUFFSIZE" and size <= _TINY:
        saved = (default - size) * _CHANNELS
        return _problem(
            one,
            f"NCCL_BUFFSIZE={size} is {format_bytes(size)} instead of {format_bytes(default)}.",
            f"It saves {format_bytes(default - size)} for each connection and channel, {format_bytes(saved)} for a "
            f"ring with {_CHANNELS} channels, and cuts what is sent at once to {format_bytes(size // _STEPS)}"
            + (f" (NCCL takes {format_bytes(_CHUNK)} and more)" if size // _STEPS < _CHUNK else "")
            + ": collectives get slower.",
            "Remove it; where NCCL's memory is the matter, NCCL_MAX_NCHANNELS is in proportion to it.",
            {**numbers, "saved_bytes": saved},
            Severity.WARNING,
        )
    if size > _HUGE:
        more = (size - default) * _CHANNELS
        return _problem(
            one,
            f"{one.name}={size} is {format_bytes(size)} instead of {format_bytes(default)}.",
            f"Each connection of each channel has one: {format_bytes(more)} more for a ring with {_CHANNELS} channels, "
            "outside PyTorch's allocator.",
            "Remove it, or go back to 8 MiB at most.",
            {**numbers, "more_bytes": more},
            Severity.WARNING,
        )
    return f"{one.name} is {format_bytes(size)} (the default is {format_bytes(default)})"


def _problem(
    one: Variable,
    says: str,
    does: str,
    fix: str,
    numbers: dict[str, int],
    severity: Severity,
    certainty: Certainty = Certainty.CERTAIN,
) -> Problem:
    return Problem(
        says=says,
        does=does,
        fix=fix,
        paste=f"unset {one.name}",
        subject=one.name,
        severity=severity,
        certainty=certainty,
        numbers=numbers,
        evidence=(one.quote,),
    )
