"""When a trial has shown enough: the phase in question has passed on every rank."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.errors import UsageError
from oomph.phases import Phase

#: Two steps: optimizers make their states in the first one, so that only the second needs what all later ones need.
LEAST_STEPS = 2
#: Phases beside the steps of training.
_BESIDE = (Phase.EVAL, Phase.GENERATE, Phase.SAVE)


@dataclass(frozen=True)
class Goal:
    """So many optimizer steps are done, and `phase` has ended `times` times (None: no phase beside training's is
    asked for). `end`: nothing but the command's own end is enough."""

    steps: int = LEAST_STEPS
    phase: Phase | None = None
    times: int = 1
    end: bool = False

    def __str__(self) -> str:
        if self.end:
            return "the end of the command"
        parts = [f"optimizer step {self.steps}"] if self.steps else []
        if self.phase is not None:
            which = "" if self.times == 1 else f" number {self.times}"
            parts.append(f"{self.phase}{which}")
        return " and ".join(parts)


#: Runs until memory runs out, or it ends: for the first trial, whose failure says what the others have to pass.
END = Goal(end=True)


def goal_after(phase: str, steps_done: int | None, times_before: int) -> Goal:
    """The goal of the trials that follow one in which memory ran out in `phase` after `steps_done` steps, that phase
    having ended `times_before` times: one step further, or once more; two steps at the least. A phase that is not known
    (""), after steps that had fitted, is no part of a step: until the command's end, since nothing less is sure to come
    as far again."""
    done = max(0, steps_done or 0)
    if not phase and done >= LEAST_STEPS:
        return END
    for one in _BESIDE:
        if phase == one.value:
            return Goal(
                steps=LEAST_STEPS if done == 0 else min(done, LEAST_STEPS), phase=one, times=times_before + 1
            )
    return Goal(steps=max(LEAST_STEPS, done + 2))


def goal_named(text: str) -> Goal:
    """What `--until` says: a phase, "step:N" or "end". Raises UsageError."""
    word = text.strip().lower()
    if word == "end":
        return Goal(steps=0, end=True)
    if word.startswith("step:") and word[5:].isascii() and word[5:].isdigit() and 0 < int(word[5:]) < 10**9:
        return Goal(steps=int(word[5:]))
    if word in ("forward", "backward", "optimizer"):
        return Goal()
    for one in _BESIDE:
        if word == one.value:
            return Goal(steps=0, phase=one)
    raise UsageError(
        f"--until {text[:40]!r}: give forward, backward, optimizer, eval, generate, save, step:N or end."
    )
