"""The phase of one failure: frames first, then the job's own announcements, else unknown."""

from __future__ import annotations

import re
from dataclasses import replace

from oomph.diagnose.lookup import Progress, last_before
from oomph.diagnose.model import PhaseVerdict
from oomph.diagnose.phases.walk import Decision, decide
from oomph.evidence.model import Evidence, Fact, Failure, Frame, Kind, Position, Traceback
from oomph.phases import Phase

#: Values of the fact `phase_line` -> phase. "train" proves only that training had begun.
_ANNOUNCED = {
    "init": Phase.INIT,
    "load": Phase.LOAD,
    "eval": Phase.EVAL,
    "generate": Phase.GENERATE,
    "save": Phase.SAVE,
}
_WEIGHTS = re.compile(
    r"model|weight|checkpoint|ckpt|state_dict|pretrained|safetensors|torch[/\\]serialization|\.pth?\b"
)
_TRAINING_FRAME = re.compile(r"_?(?:train|fit|training)(?:_\w+)?$|run_epoch$|train_\w+|\w+_train$")
_COLLECTIVE = re.compile(r"torch[/\\]distributed[/\\]distributed_c10d\.py$")
_CLONE_WARNING = "Failed to clone() tensor"


def phase_of(
    evidence: Evidence, failure: Failure | None, traceback: Traceback | None, at: Position
) -> PhaseVerdict:
    """The phase in which `failure` happened. `at` is where it was printed."""
    first_step = _first_step(evidence, at, failure.rank if failure else None)
    if failure is not None and _CLONE_WARNING in failure.quote.text:
        return PhaseVerdict(
            Phase.SAVE,
            "log_line",
            "FSDP warns that it could not clone a tensor of the state dict it is collecting",
            quote=failure.quote,
            first_step=first_step,
        )
    announced = _announcement(evidence, at, failure.rank if failure else None)
    decision = decide(traceback.frames) if traceback is not None else None
    if (
        decision is not None
        and traceback is not None
        and failure is not None
        and failure.kind is Kind.HOST_OOM
    ):
        decision = _of_data(decision, traceback)
    if decision is not None and traceback is not None:
        if decision.phase is Phase.FORWARD and announced is not None and not _trains(traceback.frames):
            phase = _ANNOUNCED.get(announced.value)
            if phase in (Phase.EVAL, Phase.GENERATE):
                return PhaseVerdict(
                    phase,
                    "log_line",
                    f"the job said: {announced.quote.text[:120]}",
                    frame=decision.frame,
                    quote=announced.quote,
                    first_step=first_step,
                )
        return _by_frame(decision, first_step)
    if traceback is not None and first_step is not False:
        frame = next((one for one in reversed(traceback.frames) if _COLLECTIVE.search(one.file)), None)
        if frame is not None and not _steps_before(evidence, at):
            return PhaseVerdict(
                Phase.INIT,
                "frame",
                f"{_short(frame.file)}:{frame.line} in {frame.function}: a collective before any step was printed",
                frame=frame,
                first_step=first_step,
            )
    if announced is not None and announced.value in _ANNOUNCED:
        return PhaseVerdict(
            _ANNOUNCED[announced.value],
            "log_line",
            f"no frame decides; the job's last word on what it does is: {announced.quote.text[:120]}",
            quote=announced.quote,
            first_step=first_step,
        )
    why = (
        "the traceback has no frame that belongs to one phase"
        if traceback
        else "no traceback of it is in the input"
    )
    return PhaseVerdict(Phase.UNKNOWN, "none", why, first_step=first_step)


def _of_data(decision: Decision, traceback: Traceback) -> Decision:
    """On the host, a function of the user's own called "load" reads data unless something names weights."""
    named = decision.weak and decision.phase is Phase.LOAD
    if not named or any(_WEIGHTS.search(f"{one.file} {one.function} {one.code}") for one in traceback.frames):
        return decision
    return replace(decision, phase=Phase.INIT)


def _steps_before(evidence: Evidence, at: Position) -> bool:
    return evidence.derived(Progress).before(at, None)[0] > 0


def _by_frame(decision: Decision, first_step: bool | None) -> PhaseVerdict:
    frame = decision.frame
    where = f"{_short(frame.file)}:{frame.line} in {frame.function}"
    if decision.recompute:
        why = f"{where}: a checkpoint recomputes its block inside backward"
    elif decision.by_code:
        why = f"{where}: `{(frame.span or frame.code)[:100]}`"
    else:
        why = f"decided by {where}"
    return PhaseVerdict(
        decision.phase, "frame", why, frame=frame, first_step=first_step, recompute=decision.recompute
    )


def _short(file: str) -> str:
    file = file.replace("\\", "/")
    for mark in ("site-packages/", "dist-packages/"):
        if mark in file:
            return file.rpartition(mark)[2]
    return file


def _trains(frames: tuple[Frame, ...]) -> bool:
    return any(_TRAINING_FRAME.match(frame.function) for frame in frames)


def _announcement(evidence: Evidence, at: Position, rank: int | None) -> Fact | None:
    """The last phase announcement before `at` in the same file, unless training steps were printed after it."""
    last = last_before(evidence.facts_in(at.document, "phase_line"), at.line)
    if last is None:
        return None
    step = evidence.derived(Progress).last_before(at, rank)
    return None if step is not None and _moves_on(step, last) else last


def _moves_on(progress: Fact, announced: Fact) -> bool:
    """A training step's line behind an announcement ends what was announced; a bar that is redrawn on the same
    line does not."""
    return progress.quote.line > announced.quote.line


def _first_step(evidence: Evidence, at: Position, rank: int | None) -> bool | None:
    steps, highest = evidence.derived(Progress).before(at, rank)
    if highest >= 1 or (steps >= 3 and highest < 0):
        return False
    begun = evidence.derived(_Begun).first.get(at.document, at.line + 1) <= at.line
    return True if begun or highest >= 0 else None


class _Begun:
    """Where each document first says that training begins."""

    def __init__(self, evidence: Evidence) -> None:
        self.first: dict[int, int] = {}
        for fact in evidence.facts_named("phase_line"):
            if fact.value == "train":
                self.first.setdefault(fact.position.document, fact.position.line)
