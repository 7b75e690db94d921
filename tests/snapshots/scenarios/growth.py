"""Jobs of many steps: some keep a known number of bytes at a known line each step, some only look as if they did."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.device import Device, Options, OutOfMemory, Tensor
from tests.snapshots.job import OTHER, SAVED, Job, Spec
from tests.snapshots.scenarios.card import finished
from tests.snapshots.truth import Truth
from tests.snapshots.written import Made

METRICS = sites.script(76, op="detach")
HIDDEN = sites.block(52, "linear")
LOGITS = sites.head()
EVALUATION = sites.script(67, op="cat")

#: Lengths whose tensors fill their segments without a rest, so that a block is as large as its request.
_EVEN = 4096


@dataclass
class Run:
    """A job and how long it runs: `roomy` on a device without end, `tight` on one of so many bytes."""

    spec: Spec
    steps: int
    truth: Truth
    seed: int = 0
    style: str = "all"
    frees: str = "all"
    settings: AllocatorSettings = field(default_factory=AllocatorSettings)

    def roomy(self) -> Made:
        """All the steps, and a snapshot after the last."""
        return self.on(80 * GIB)[0]

    def first_step_beyond(self, room_bytes: int) -> int:
        """The first step whose peak of what is allocated is more than there is room for, if memory had no end."""
        steps, self.steps = self.steps, 80
        peaks = self.on(80 * GIB)[0].device.step_peaks()
        self.steps = steps
        return next(step for step, peak in enumerate(peaks) if peak > room_bytes)

    def tight(self, room_bytes: int) -> Made:
        """As far as memory lasts; the truth then knows the step at which it did not."""
        made, error = self.on(room_bytes)
        assert error is not None
        made.truth.failed = error.failed
        made.truth.categories = dict(error.failed.categories)
        made.truth.fails_at_step = error.failed.step
        return made

    def on(self, room_bytes: int) -> tuple[Made, OutOfMemory | None]:
        """The job on a device of so many bytes, and what stopped it."""
        device = Device(
            Options(
                seed=self.seed,
                style=self.style,
                frees=self.frees,
                settings=self.settings,
                total_bytes=room_bytes + GIB // 2,
                outside_bytes=GIB // 2,
            )
        )
        job = Job(device, self.spec)
        error = None
        try:
            job.run(self.steps)
        except OutOfMemory as caught:
            error = caught
        return finished(device, replace(self.truth), job.annotations), error


def _spec(seed: int) -> Spec:
    return Spec(
        layers=2 + seed % 3,
        hidden=(512, 1024)[seed % 2],
        tokens=_EVEN,
        vocabulary=(8_192, 16_384)[seed % 2],
        foreach=seed % 3 != 1,
        annotations=seed % 4 != 3,
    )


def keeps_logits(seed: int, style: str = "all", steps: int = 12) -> Run:
    """`outputs.append(logits)`: the logits of every step stay."""
    spec = replace(_spec(seed), keep_lines=(LOGITS.line,))
    return Run(spec, steps, Truth(leaks={LOGITS.line: _EVEN * spec.vocabulary * 2}), seed, style)


def keeps_logits_later(seed: int, style: str = "all", steps: int = 14) -> Run:
    """The same, but only from a later step on."""
    begins = 4 + seed % 3
    run = keeps_logits(seed, style, steps)
    run.spec.keep_from = begins
    run.truth.leak_from_step = begins
    return run


def keeps_small_blocks(seed: int, style: str = "all", steps: int = 12) -> Run:
    """`metrics.append(x.mean())`: hundreds of blocks of 512 bytes each step."""
    count = 150 + seed * 17 % 200

    def keep(job: Job, step: int) -> None:
        job.kept += [job.device.alloc(4, METRICS, OTHER) for _ in range(count)]

    return Run(replace(_spec(seed), keep=keep), steps, Truth(leaks={METRICS.line: count * 512}), seed, style)


def keeps_two(seed: int, style: str = "all", steps: int = 12) -> Run:
    """Two lines leak: hidden states of one layer, and a metric."""
    spec = _spec(seed)
    size = 4 * _EVEN * spec.hidden * 2

    def keep(job: Job, step: int) -> None:
        job.kept += [job.device.alloc(64, METRICS, OTHER) for _ in range(40)]

    spec.keep, spec.keep_lines = keep, (HIDDEN.line,)
    return Run(spec, steps, Truth(leaks={HIDDEN.line: size, METRICS.line: 40 * 512}), seed, style)


def keeps_the_graph(seed: int, style: str = "all", steps: int = 9) -> Run:
    """`losses.append(loss)`, with the graph that hangs on each: all activations of every step, at every line."""
    spec = _spec(seed)
    lines = {number: sites.block(number, op).line for number, _, op in SAVED}
    spec.keep_lines = tuple(line for line in lines.values() for _ in range(spec.layers))
    unit = _EVEN * spec.hidden * 2
    leaks = {lines[number]: spec.layers * factor * unit for number, factor, _ in SAVED}
    return Run(spec, steps, Truth(leaks=leaks), seed, style)


def keeps_logits_of_all_lengths(seed: int, style: str = "all", steps: int = 16) -> Run:
    """`outputs.append(logits)`, each as long as its batch."""
    chance = random.Random(seed)
    lengths = [chance.randrange(4, 8) * 1024 for _ in range(steps)]
    spec = replace(_spec(seed), keep_lines=(LOGITS.line,), tokens_at=lambda step: lengths[step])
    size = sum(lengths) // steps * spec.vocabulary * 2
    return Run(spec, steps, Truth(leaks={LOGITS.line: size}), seed, style)


def keeps_at_evaluation(seed: int, style: str = "all", steps: int = 20) -> Run:
    """`history.append(outputs)` in an evaluation that runs after every third step."""
    size = 30 * MIB + seed * 2 * MIB

    def keep(job: Job, step: int) -> None:
        if step % 3 == 2:
            job.kept.append(job.device.alloc(size, EVALUATION, OTHER))

    return Run(replace(_spec(seed), keep=keep), steps, Truth(leaks={EVALUATION.line: size // 3}), seed, style)


# -- no leaks -------------------------------------------------------------------------------------------------------


def steady(seed: int, style: str = "all", steps: int = 10) -> Run:
    """Every step like the one before; the first also makes the optimizer's states."""
    return Run(_spec(seed), steps, Truth(), seed, style)


def longest_batch(seed: int, style: str = "all", steps: int = 11) -> Run:
    """One batch is three times as long as the others."""
    longest = 4 + seed % 5
    spec = replace(_spec(seed), tokens_at=lambda step: _EVEN * (3 if step == longest else 1))
    return Run(spec, steps, Truth(longest_step=longest), seed, style)


def varying_lengths(seed: int, style: str = "all", steps: int = 14) -> Run:
    """Each batch has a length of its own."""
    chance = random.Random(seed)
    lengths = [chance.randrange(1000, 6000) for _ in range(steps)]
    truth = Truth(longest_step=lengths.index(max(lengths)))
    return Run(replace(_spec(seed), tokens_at=lambda step: lengths[step]), steps, truth, seed, style)


def lengths_grow(seed: int, style: str = "all", steps: int = 12) -> Run:
    """Batches sorted by length: each peak is higher than the last, and nothing stays."""
    spec = replace(_spec(seed), tokens_at=lambda step: 1024 + 384 * step)
    return Run(spec, steps, Truth(longest_step=steps - 1), seed, style)


def evaluates(seed: int, style: str = "all", steps: int = 12) -> Run:
    """Evaluation after every few steps, under torch.no_grad as a decorator."""
    return Run(replace(_spec(seed), eval_every=2 + seed % 3), steps, Truth(), seed, style)


def evaluates_without_a_trace(seed: int, style: str = "all", steps: int = 12) -> Run:
    """The same in the training loop itself, whose frames do not say so."""
    spec = replace(_spec(seed), eval_every=2 + seed % 3, evaluates_at=82)
    return Run(spec, steps, Truth(), seed, style)


def accumulates(seed: int, style: str = "all", steps: int = 8) -> Run:
    """Several batches for each step of the optimizer."""
    return Run(replace(_spec(seed), accumulate=2 + seed % 3), steps, Truth(), seed, style)


def cache_that_is_emptied(seed: int, style: str = "all", steps: int = 13) -> Run:
    """A list grows for four steps and is emptied at the fifth, again and again."""

    def keep(job: Job, step: int) -> None:
        if step % 5 == 4:
            for tensor in job.kept:
                job.device.free(tensor, sites.script(79))
            job.kept.clear()
        else:
            job.kept.append(job.device.alloc(30_000_000, sites.script(77), OTHER))

    return Run(replace(_spec(seed), keep=keep), steps, Truth(), seed, style)


def cache_that_is_emptied_late(seed: int, style: str = "all", steps: int = 17) -> Run:
    """The same with nine steps between; the trace ends while it grows for the second time."""

    def keep(job: Job, step: int) -> None:
        if step % 10 == 9:
            for tensor in job.kept:
                job.device.free(tensor, sites.script(79))
            job.kept.clear()
        else:
            job.kept.append(job.device.alloc(30_000_000, sites.script(77), OTHER))

    return Run(replace(_spec(seed), keep=keep), steps, Truth(), seed, style)


def long_ring_of_results(seed: int, style: str = "all", steps: int = 14) -> Run:
    """`deque(maxlen=6)`: what is in it at the end was made in the last six steps, one in each."""
    return ring_of_results(seed, style, steps, most=6)


def ring_of_results(seed: int, style: str = "all", steps: int = 12, most: int = 3) -> Run:
    """`deque(maxlen=3)`: every step adds one and drops the oldest."""

    def keep(job: Job, step: int) -> None:
        job.kept.append(job.device.alloc(25_000_000, sites.script(77), OTHER))
        if len(job.kept) > most:
            job.device.free(job.kept.pop(0), sites.script(77))

    return Run(replace(_spec(seed), keep=keep), steps, Truth(), seed, style)


def moving_average(seed: int, style: str = "all", steps: int = 12) -> Run:
    """A copy of the parameters that each step replaces by a new one."""

    def keep(job: Job, step: int) -> None:
        old: list[Tensor] = list(job.kept)
        job.kept = [job.device.alloc(one.requested_bytes, sites.script(72), OTHER) for one in job.parameters]
        for tensor in old:
            job.device.free(tensor, sites.script(72))

    return Run(replace(_spec(seed), keep=keep), steps, Truth(), seed, style)


LEAKS: dict[str, Callable[[int, str], Run]] = {
    each.__name__: each
    for each in (
        keeps_logits,
        keeps_logits_later,
        keeps_the_graph,
        keeps_logits_of_all_lengths,
        keeps_small_blocks,
        keeps_two,
        keeps_at_evaluation,
    )
}
NONE: dict[str, Callable[[int, str], Run]] = {
    each.__name__: each
    for each in (
        steady,
        longest_batch,
        varying_lengths,
        lengths_grow,
        evaluates,
        evaluates_without_a_trace,
        accumulates,
        cache_that_is_emptied,
        cache_that_is_emptied_late,
        ring_of_results,
        long_ring_of_results,
        moving_average,
    )
}
