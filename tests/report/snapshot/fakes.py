"""Reports of snapshots built by hand: what could be said of jobs whose snapshots never existed.

Sizes are whole MiB or GiB, so that sums can be checked by eye.
"""

from __future__ import annotations

import dataclasses

from oomph.diagnose.model import Advice, Certainty, Finding, RuledOut, Step
from oomph.diagnose.snapshot.model import (
    DeviceReport,
    Failure,
    Growth,
    Holder,
    How,
    Leak,
    Moment,
    Pin,
    PoolUse,
    Retry,
    Share,
    SnapshotReport,
    Steps,
    Trial,
    Verdict,
    WhatIf,
)
from oomph.memory.categories import Category
from oomph.memory.ledger import Ledger
from oomph.memory.stacks import Frame
from oomph.phases import Phase
from oomph.units import GIB, MIB, Amount

SOURCE = "runs/oom.pickle"

LINEAR = Frame("forward", "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 125)
BLOCK = Frame("forward", "/workspace/gpt/model.py", 212)
TRAIN = Frame("train", "/workspace/gpt/train.py", 70)
STEP = Frame("step", "/opt/venv/lib/python3.11/site-packages/torch/optim/adamw.py", 226)
LOAD = Frame("main", "/workspace/gpt/train.py", 31)
NATIVE = Frame("c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "??", 0)

ACTIVATION_STACK = (NATIVE, LINEAR, BLOCK, TRAIN)


def ledger(**recorded: int) -> Ledger:
    """The ledger of exact sizes, by field name without `_bytes`."""
    return Ledger.build({f"{name}_bytes": Amount(size) for name, size in recorded.items()})


def holder(size: int, blocks: int, category: Category, frames: tuple[Frame, ...], **more) -> Holder:
    """Blocks of one stack; the place is the innermost frame under /workspace."""
    own = [frame for frame in frames if frame.file.startswith("/workspace")]
    fields = {
        "frames": frames,
        "place": own[0] if own else None,
        "bytes": size,
        "blocks": blocks,
        "largest_bytes": size // blocks,
        "category": category,
        "how": How.FRAMES,
        "certainty": Certainty.LIKELY,
        "phase": Phase.FORWARD,
        **more,
    }
    return Holder(**fields)


SHARES = (
    Share(Category.PARAMETERS, 14 * GIB, 290, How.FRAMES, Certainty.LIKELY),
    Share(Category.GRADIENTS, 10 * GIB, 201, How.LIFETIME, Certainty.LIKELY),
    Share(Category.OPTIMIZER_STATE, 28 * GIB, 580, How.FRAMES, Certainty.CERTAIN),
    Share(Category.ACTIVATIONS, 24 * GIB, 1210, How.LIFETIME, Certainty.LIKELY),
    Share(Category.UNKNOWN, 512 * MIB, 12, How.NONE, Certainty.POSSIBLE),
)
HOLDERS = (
    holder(
        28 * GIB,
        580,
        Category.OPTIMIZER_STATE,
        (STEP, TRAIN),
        phase=Phase.OPTIMIZER,
        first_step=0,
        last_step=0,
    ),
    holder(20 * GIB, 1000, Category.ACTIVATIONS, ACTIVATION_STACK, first_step=3, last_step=3),
    holder(14 * GIB, 290, Category.PARAMETERS, (LOAD,), phase=Phase.LOAD),
    holder(10 * GIB, 201, Category.GRADIENTS, (NATIVE,), phase=Phase.BACKWARD, how=How.LIFETIME),
    holder(4 * GIB, 210, Category.ACTIVATIONS, (BLOCK, TRAIN), first_step=3, last_step=3),
    holder(512 * MIB, 12, Category.UNKNOWN, (), how=How.NONE, phase=Phase.UNKNOWN),
)
#: 14 + 10 + 28 + 24 + 0.5 GiB.
ALLOCATED = 76 * GIB + 512 * MIB
#: 256 MiB of it are cached.
RESERVED = ALLOCATED + 256 * MIB
CAPACITY = 79 * GIB
FREE = 100 * MIB

STEPS = Steps(4, How.ANNOTATIONS, Certainty.CERTAIN, "ProfilerStep ranges", (0, 2000, 4000, 6000))
MOMENT = Moment(
    "oom", 7800, 8000, 1_700_000_012_350_000, 12_350_000, Phase.BACKWARD, How.FRAMES, 3, ACTIVATION_STACK
)

FAILURE = Failure(
    position=7800,
    verdict=Verdict.FULL,
    certainty=Certainty.CERTAIN,
    says="76.50 GiB was alive; with all 356.00 MiB that was free anywhere in one piece, 668.00 MiB were missing.",
    request_bytes=GIB,
    segment_bytes=GIB,
    pool=(0, 0),
    stream=0,
    small=False,
    hole_bytes=128 * MIB,
    cached_own_bytes=250 * MIB,
    cached_bytes=256 * MIB,
    free_bytes=FREE,
    reserved_bytes=RESERVED,
    allocated_bytes=ALLOCATED,
    available_bytes=RESERVED + FREE,
    short_by_bytes=GIB - 356 * MIB,
    frames=ACTIVATION_STACK,
    ruled_out=(RuledOut("fragmentation", "all 256.00 MiB cached could not hold 1024.00 MiB"),),
)

TRIALS = (
    Trial("", "as it was", RESERVED, ALLOCATED, 7800, 2, 3),
    Trial("expandable_segments:True", "segments that grow", RESERVED - 128 * MIB, ALLOCATED, 7800, 1, 0),
    Trial(
        "max_split_size_mb:128",
        "large blocks stay whole",
        RESERVED,
        ALLOCATED,
        7655,
        9,
        12,
        "not on a real trace",
    ),
)

FINDING = Finding(
    "OOM201",
    "activations",
    "activations-fill-the-card",
    Certainty.LIKELY,
    "Activations hold 24.00 GiB of 76.50 GiB.",
    Phase.BACKWARD,
    numbers={"activation_bytes": 24 * GIB},
    actions=("checkpointing",),
)
ADVICE = Advice(
    Step(
        "checkpointing",
        "Turn on activation checkpointing",
        "Keep only the inputs of each block and compute the rest again in backward.",
        "model.gradient_checkpointing_enable()",
        12 * GIB,
        (("It fits", "keep it"), ("It fails in backward again", "halve the micro-batch")),
    ),
    then=(Step("micro-batch", "Halve the micro-batch", "Double the accumulation."),),
    avoid=("torch.cuda.empty_cache(): it gives back what is cached, 256.00 MiB at most.",),
)


def device(**more) -> DeviceReport:
    """GPU 0 at its OOM; `more` replaces fields."""
    fields = {
        "index": 0,
        "events": 8000,
        "moment": MOMENT,
        "ledger": ledger(
            capacity=CAPACITY, free=FREE, reserved=RESERVED, allocated=ALLOCATED, segment=GIB, request=GIB
        ),
        "shares": SHARES,
        "holders": HOLDERS,
        "pools": (
            PoolUse((0, 0), 0, False, False, 400, RESERVED - 64 * MIB, ALLOCATED - 58 * MIB, 128 * MIB, 31),
            PoolUse((0, 0), 0, True, False, 32, 64 * MIB, 58 * MIB, MIB, 9),
        ),
        "phases": {
            Phase.LOAD: 14 * GIB,
            Phase.FORWARD: 24 * GIB,
            Phase.OPTIMIZER: 28 * GIB,
            Phase.BACKWARD: 10 * GIB,
        },
        "steps": STEPS,
        "peak_allocated_bytes": ALLOCATED,
        "peak_reserved_bytes": RESERVED,
        "failure": FAILURE,
        "failures": 1,
        "growth": Growth("Nothing grows: 4 steps end with the same 52.50 GiB.", 4),
        "what_if": WhatIf(
            CAPACITY - 2 * GIB, "from the OOM", TRIALS, None, "None of the settings tried would have helped."
        ),
        **more,
    }
    return DeviceReport(**fields)


def full() -> SnapshotReport:
    """A card that was full."""
    return SnapshotReport(
        source=SOURCE,
        era="2.8",
        size_bytes=12_345_678,
        settings="",
        devices=(device(),),
        shown=0,
        findings=(FINDING,),
        ruled_out=(RuledOut("leak", "nothing grows from step to step"),),
        advice=ADVICE,
    )


def with_device(**more) -> SnapshotReport:
    """The same file with other facts about its device, and no findings."""
    return dataclasses.replace(full(), devices=(device(**more),), findings=(), ruled_out=(), advice=None)


def fragmented() -> SnapshotReport:
    """Room enough in pieces; expandable segments help."""
    failure = dataclasses.replace(
        FAILURE,
        verdict=Verdict.FRAGMENTED,
        certainty=Certainty.LIKELY,
        says="3.00 GiB was cached in the request's own pool, in 31 pieces of at most 512.00 MiB.",
        hole_bytes=512 * MIB,
        cached_own_bytes=3 * GIB,
        cached_bytes=3 * GIB,
        short_by_bytes=0,
        ruled_out=(RuledOut("full", "3.10 GiB was free in all, 1024.00 MiB was asked for"),),
        pins=(
            Pin(2 * MIB, GIB + 2 * MIB, ACTIVATION_STACK, BLOCK, Category.ACTIVATIONS),
            Pin(512, 700 * MIB, (), None, Category.UNKNOWN),
        ),
    )
    helps = dataclasses.replace(TRIALS[1], fails_at=None, retries=0)
    return with_device(
        failure=failure,
        ledger=ledger(
            capacity=CAPACITY, free=FREE, reserved=RESERVED, allocated=RESERVED - 3 * GIB, segment=GIB
        ),
        what_if=WhatIf(
            CAPACITY - 2 * GIB,
            "from the OOM",
            (TRIALS[0], helps),
            helps,
            "expandable_segments:True would have served every request.",
        ),
    )


def no_failure() -> SnapshotReport:
    """A job that ran through; shown at its peak, with a retry, a leak and two pools."""
    retry = Retry(
        5100,
        2 * GIB,
        9,
        GIB,
        3 * GIB,
        78 * GIB,
        Certainty.LIKELY,
        "2.00 GiB in 9 segments were given back to serve 1024.00 MiB.",
        ACTIVATION_STACK,
    )
    leak = Leak((BLOCK, TRAIN), BLOCK, Category.ACTIVATIONS, 64 * MIB, 2.0, 4, 256 * MIB, 0, Certainty.LIKELY)
    return with_device(
        moment=dataclasses.replace(MOMENT, kind="peak allocated", position=7000),
        failure=None,
        failures=0,
        retries=(retry,),
        ledger=ledger(reserved=RESERVED, allocated=ALLOCATED),
        growth=Growth(
            "64.00 MiB more are held after each step, from model.py:212.", 4, (leak,), 64 * MIB, 40, 3 * GIB
        ),
        what_if=None,
        pools=(
            PoolUse((0, 0), 0, False, False, 400, 60 * GIB, 59 * GIB, 512 * MIB, 31),
            PoolUse((0, 1), 7, False, False, 30, 10 * GIB, 9 * GIB, 512 * MIB, 4),
        ),
        notes=("The trace begins when 52.50 GiB were allocated already.",),
    )


def no_history() -> SnapshotReport:
    """Segments only."""
    return with_device(
        events=0,
        moment=Moment("end", -1, 0),
        ledger=ledger(reserved=RESERVED, allocated=ALLOCATED),
        shares=(Share(Category.UNKNOWN, ALLOCATED, 2293, How.NONE, Certainty.POSSIBLE),),
        holders=(holder(ALLOCATED, 2293, Category.UNKNOWN, (), how=How.NONE, phase=Phase.UNKNOWN),),
        phases={Phase.UNKNOWN: ALLOCATED},
        steps=None,
        failure=None,
        failures=0,
        growth=None,
        what_if=None,
    )


def empty() -> SnapshotReport:
    """A process that never used the GPU."""
    return SnapshotReport(SOURCE, "2.8", 200, "", (), 0)


def several_devices() -> SnapshotReport:
    """GPU 1 failed; GPU 0 holds little, GPU 2 is not used."""
    unused = DeviceReport(2, 0, Moment("end", -1, 0), Ledger(), (), (), ())
    idle = device(
        failure=None,
        failures=0,
        shares=SHARES[:1],
        holders=HOLDERS[2:3],
        peak_allocated_bytes=14 * GIB,
        peak_reserved_bytes=15 * GIB,
        what_if=None,
        growth=None,
    )
    return dataclasses.replace(full(), devices=(idle, device(index=1), unused), shown=1)
