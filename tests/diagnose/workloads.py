"""Training jobs as sequences of requests and frees, to be run through the allocator of packing.py."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from tests.diagnose.packing import Allocator, Block, Refusal, rounded

#: ("+", name, bytes) or ("-", name, 0)
Event = tuple[str, object, int]


@dataclass(frozen=True)
class Job:
    """A transformer with bf16 weights. `states` are the bytes of optimizer state per parameter (12: fp32 weights and
    two Adam states; 0: the weights are frozen and the adapters too small to count). `kept` are the activations that a
    layer keeps, in units of tokens x width x 2 bytes. With a `vocabulary` the loss makes logits in fp32."""

    layers: int = 12
    width: int = 2048
    states: int = 12
    kept: tuple[float, ...] = (1, 1, 3, 1, 1, 4, 4)
    vocabulary: int = 0

    def weights(self) -> list[int]:
        """Parameters of a layer's matrices: attention in and out, MLP up and down, and two norms."""
        return [
            self.width * size for size in (3 * self.width, self.width, 4 * self.width, 4 * self.width, 1, 1)
        ]

    def static(self) -> Iterator[Event]:
        for layer in range(self.layers):
            for index, count in enumerate(self.weights()):
                yield "+", ("w", layer, index), 2 * count

    def forward(self, tokens: int, *, keep: bool) -> Iterator[Event]:
        unit = tokens * self.width * 2
        for layer in range(self.layers):
            for index, share in enumerate(self.kept):
                yield "+", ("a", layer, index), int(share * unit)
                yield "+", "scratch", int(share * unit) // 2
                yield "-", "scratch", 0
            if not keep:
                for index in range(len(self.kept)):
                    yield "-", ("a", layer, index), 0

    def backward(self, tokens: int) -> Iterator[Event]:
        """Frees what the forward kept, last layer first, and makes the gradients."""
        unit = tokens * self.width * 2
        if self.vocabulary:
            for name in ("logits", "softmax"):
                yield "+", name, 4 * tokens * self.vocabulary
            for name in ("logits", "softmax"):
                yield "-", name, 0
        for layer in reversed(range(self.layers)):
            yield "+", "flow", unit
            for index in reversed(range(len(self.kept))):
                yield "+", "scratch", int(self.kept[index] * unit)
                yield "-", ("a", layer, index), 0
                yield "-", "scratch", 0
            for index, count in enumerate(self.weights() if self.states else []):
                yield "+", ("g", layer, index), 2 * count
            yield "-", "flow", 0

    def optimize(self, first: bool) -> Iterator[Event]:
        """Makes the states at the first step, a temporary for each matrix, and drops the gradients."""
        if not self.states:
            return
        for layer in range(self.layers):
            for index, count in enumerate(self.weights()):
                for state in range(self.states // 4 if first else 0):
                    yield "+", ("s", layer, index, state), 4 * count
                yield "+", "scratch", 4 * count
                yield "-", "scratch", 0
        for layer in range(self.layers):
            for index in range(len(self.weights())):
                yield "-", ("g", layer, index), 0


@dataclass(frozen=True)
class Outcome:
    """What became of a job: the refusal that ended it, and what a packed allocator would have needed."""

    refusal: Refusal | None
    step: int
    step_peak: int
    job_peak: int
    capacity: int

    @property
    def step_fits_packed(self) -> bool:
        """True when an allocator without gaps would have got through the step that failed."""
        return self.step_peak <= self.capacity

    @property
    def job_fits_packed(self) -> bool:
        """True when it would have got through all steps."""
        return self.job_peak <= self.capacity


def phases(job: Job, lengths: list[int]) -> Iterator[Iterator[Event]]:
    """The weights, then the steps; a negative number of tokens is an evaluation without gradients."""
    yield job.static()
    first = True
    for tokens in lengths:
        parts = [job.forward(abs(tokens), keep=tokens > 0)]
        if tokens > 0:
            parts += [job.backward(tokens), job.optimize(first)]
            first = False
        yield chain.from_iterable(parts)


def packed_peaks(job: Job, lengths: list[int]) -> list[int]:
    """The largest sum of what is alive, for the weights and for each step: what an allocator without gaps needs."""
    alive: dict[object, int] = {}
    total, peaks = 0, []
    for events in phases(job, lengths):
        peak = total
        for sign, name, size in events:
            if sign == "-":
                total -= alive.pop(name)
            else:
                alive[name] = rounded(size)
                total += alive[name]
                peak = max(peak, total)
        peaks.append(peak)
    return peaks


def play(job: Job, lengths: list[int], capacity: int) -> Outcome:
    """Runs a job on a card that has `capacity` for PyTorch."""
    peaks = packed_peaks(job, lengths)
    allocator = Allocator(capacity)
    held: dict[object, Block] = {}
    for step, events in enumerate(phases(job, lengths)):
        for sign, name, size in events:
            if sign == "-":
                allocator.free(held.pop(name))
                continue
            block = allocator.malloc(size)
            if isinstance(block, Refusal):
                return Outcome(block, step, peaks[step], max(peaks), capacity)
            held[name] = block
    return Outcome(None, len(lengths), max(peaks), max(peaks), capacity)


def varying(seed: int, steps: int, longest: int, *, spread: float = 1.0) -> list[int]:
    """Lengths as batches of texts have them: many short ones, a few long ones, each a multiple of 8."""
    chance = random.Random(seed)
    low = 1 - spread
    return [max(8, int(longest * (low + spread * chance.betavariate(2, 4))) // 8 * 8) for _ in range(steps)]


#: Capacities, as shares of what a packed allocator needs for the whole job: jobs that are too big, and jobs that fit.
SHARES = (
    0.6,
    0.7,
    0.8,
    0.85,
    0.9,
    0.93,
    0.96,
    0.98,
    1.0,
    1.02,
    1.04,
    1.06,
    1.08,
    1.1,
    1.13,
    1.16,
    1.2,
    1.3,
    1.5,
)


def drawn(seed: int) -> tuple[str, Job, list[int]]:
    """A job by chance: its kind ("fixed", "varying" or "switching" to evaluation), its sizes and its steps."""
    chance = random.Random(seed)
    job = Job(
        layers=chance.choice([3, 4, 6, 8, 12]),
        width=chance.choice([512, 1024, 2048]),
        states=chance.choice([0, 0, 12]),
        kept=tuple(chance.choice([0.5, 1, 1, 2, 3, 4]) for _ in range(chance.choice([4, 6, 8]))),
        vocabulary=chance.choice([0, 0, 32_000, 128_000]),
    )
    longest = chance.choice([8192, 16384, 32768, 65536])
    kind = chance.choice(["fixed", "varying", "varying", "switching"])
    if kind == "fixed":
        return kind, job, [longest] * 6
    if kind == "varying":
        return kind, job, varying(seed, 24, longest, spread=chance.choice([0.5, 0.9, 1.0]))
    larger = [-int(longest * chance.choice([1.3, 1.7, 2.5])) // 8 * 8 for _ in range(4)]
    return kind, job, [tokens for more in larger for tokens in [longest] * 4 + [more] * 2]


def study(seeds: int) -> list[tuple[str, Outcome]]:
    """Every job on cards of all shares that refuse it something after the weights are there."""
    found = []
    for seed in range(seeds):
        kind, job, lengths = drawn(seed)
        need = max(packed_peaks(job, lengths))
        for share in SHARES:
            outcome = play(job, lengths, int(need * share))
            if outcome.refusal is None:
                if share >= 1:
                    break
            elif outcome.step > 0:
                found.append((kind, outcome))
    return found
