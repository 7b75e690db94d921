"""Jobs of random shape that keep something at the end of their steps in one of several ways."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.snapshots import sites
from tests.snapshots.job import OTHER, Job, Spec
from tests.snapshots.scenarios.growth import Run
from tests.snapshots.truth import Truth

KEEPS = sites.script(77)
WAYS = ("every", "late", "few", "ring", "emptied", "next", "never")


@dataclass
class Keeper:
    """What is kept: `every` step, from a `late` step on, in each `few` steps; in a `ring`, in a list that is `emptied`
    now and then, until the `next` step, or `never`. `count` is how often something was kept for good."""

    way: str
    size: int
    steps: int
    every: int
    late: int
    length: int

    def __call__(self, job: Job, step: int) -> None:
        keeps = {"never": False, "late": step >= self.late, "few": step % self.every == self.every - 1}
        if keeps.get(self.way, True):
            job.kept.append(job.device.alloc(self.size, KEEPS, OTHER))
        if self.way == "emptied" and step % self.length == self.length - 1:
            self._drop(job, 0)
        elif self.way in ("ring", "next"):
            self._drop(job, self.length if self.way == "ring" else 1)

    def _drop(self, job: Job, most: int) -> None:
        while len(job.kept) > most:
            job.device.free(job.kept.pop(0), KEEPS)

    @property
    def count(self) -> int:
        counts = {"every": self.steps, "late": self.steps - self.late, "few": self.steps // self.every}
        return counts.get(self.way, 0)

    @property
    def bytes_per_step(self) -> float:
        block = -(-self.size // 512) * 512
        return block / self.every if self.way == "few" else block


def job(seed: int) -> tuple[Run, Keeper]:
    """The job and what it keeps."""
    chance = random.Random(seed)
    steps = chance.randrange(8, 26)
    keeper = Keeper(
        way=WAYS[seed % len(WAYS)],
        size=chance.choice((512, 5000, 700_000, 3_000_000, 30_000_000)),
        steps=steps,
        every=chance.randrange(2, 5),
        late=chance.randrange(2, max(3, steps - 7)),
        length=chance.randrange(2, max(3, steps // 2)),
    )
    lengths = [chance.randrange(1, 9) * 512 for _ in range(steps)]
    vary = chance.random() < 0.5
    spec = Spec(
        layers=2 + seed % 3,
        hidden=(512, 1024)[seed % 2],
        vocabulary=8192,
        tokens_at=lambda step: lengths[step if vary else 0],
        foreach=chance.random() < 0.7,
        eval_every=chance.choice((0, 0, 3)),
        accumulate=chance.choice((1, 1, 2)),
        annotations=chance.random() < 0.7,
        keep=keeper,
    )
    return Run(spec, steps, Truth(), seed, chance.choice(("all", "python"))), keeper
