"""From a traceback to a phase: frames are walked from the outermost in, and the deepest that may decide does.

What encloses what is not arbitrary: a forward inside an evaluation is evaluation, a recompute inside backward is
backward, a closure's forward inside `optimizer.step` is forward, weights that move inside a validation are validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from oomph.diagnose.phases.markers import Marker, marker_of, marker_of_code, marker_of_statement
from oomph.evidence.model import Frame
from oomph.phases import Phase

#: Files through which every forward of a wrapped module goes.
_PLUMBING = re.compile(
    r"torch/nn/modules/module\.py$|torch/nn/parallel/|torch/distributed/(?:fsdp|_composable)/|torch/_dynamo/|"
    r"lightning/pytorch/|pytorch_lightning/|transformers/trainer\.py$|"
    r"accelerate/utils/operations\.py$|deepspeed/(?:runtime/engine|utils/nvtx)\.py$|peft/(?:peft_model|tuners/tuners_utils)\.py$"
)
#: phase that stands -> phases that may not replace it from further inside.
_HOLDS_AGAINST: dict[Phase, frozenset[Phase]] = {
    Phase.EVAL: frozenset({Phase.FORWARD, Phase.LOAD, Phase.INIT, Phase.BACKWARD, Phase.OPTIMIZER}),
    Phase.GENERATE: frozenset({Phase.FORWARD, Phase.LOAD, Phase.INIT, Phase.EVAL}),
    Phase.SAVE: frozenset({Phase.FORWARD, Phase.LOAD, Phase.INIT, Phase.BACKWARD, Phase.OPTIMIZER}),
    Phase.LOAD: frozenset({Phase.FORWARD, Phase.INIT, Phase.BACKWARD, Phase.OPTIMIZER, Phase.SAVE}),
    Phase.BACKWARD: frozenset({Phase.FORWARD, Phase.LOAD, Phase.INIT, Phase.EVAL, Phase.GENERATE}),
    Phase.FORWARD: frozenset({Phase.INIT, Phase.LOAD}),
    Phase.OPTIMIZER: frozenset({Phase.INIT, Phase.LOAD, Phase.SAVE}),
    Phase.INIT: frozenset(),
}
#: These replace even what holds: a checkpoint that is loaded or a model that is built inside a step is no step.
_STRONG_LOAD = frozenset({"from_pretrained", "load_state_dict", "_load_from_checkpoint", "load_checkpoint"})


@dataclass(frozen=True)
class Decision:
    """The phase that a traceback proves, and the frame that decided it."""

    phase: Phase
    frame: Frame
    recompute: bool = False
    by_code: bool = False
    weak: bool = False


def decide(frames: Sequence[Frame]) -> Decision | None:
    """The phase that the frames (outermost first) prove, or None when none of them proves one."""
    marked = ((frame, marker_of(frame) or marker_of_statement(frame)) for frame in frames)
    standing, weak = _walk((frame, marker) for frame, marker in marked if marker is not None)
    if frames and (standing is None or weak):
        marker = marker_of_code(frames[-1])
        if marker is not None:
            return Decision(marker.phase, frames[-1], by_code=True)
    return standing


def decide_marked(marked: Iterable[tuple[Frame, Marker]]) -> Decision | None:
    """The phase that marked frames (outermost first) prove together, or None without any."""
    return _walk(marked)[0]


def _walk(marked: Iterable[tuple[Frame, Marker]]) -> tuple[Decision | None, bool]:
    """The decision, and whether anything further in could have replaced it."""
    standing: Decision | None = None
    weak = True
    for frame, marker in marked:
        if standing is None or weak:
            if standing is not None and marker.weak and marker.phase is not standing.phase:
                continue
            standing, weak = _take(frame, marker), marker.weak
            continue
        if marker.phase is standing.phase:
            if (marker.recompute and not standing.recompute) or (
                _plumbing(standing.frame) and not _plumbing(frame)
            ):
                standing = replace(_take(frame, marker), recompute=marker.recompute or standing.recompute)
            continue
        if marker.weak or _holds(standing, marker, frame):
            continue
        standing, weak = _take(frame, marker), False
    return standing, weak


def _take(frame: Frame, marker: Marker) -> Decision:
    return Decision(marker.phase, frame, recompute=marker.recompute, weak=marker.weak)


def _plumbing(frame: Frame) -> bool:
    """A wrapper's frame proves a forward as well as the module that it wraps, but does not name it."""
    return _PLUMBING.search(frame.file.replace("\\", "/")) is not None


def _holds(standing: Decision, marker: Marker, frame: Frame) -> bool:
    if (
        marker.phase is Phase.LOAD
        and frame.function in _STRONG_LOAD
        and standing.phase in (Phase.FORWARD, Phase.OPTIMIZER)
    ):
        return False
    return marker.phase in _HOLDS_AGAINST[standing.phase]
