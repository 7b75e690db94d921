"""What a call stack says about the memory that it allocated.

`Labels(stacks).of(number)` gives a `Label`; `Labels.columns(numbers)` the same for many, as arrays. Each frame is
judged once per function and file, each stack once. Of a stack's frames the deepest that may decide names the phase, by
the rules for tracebacks (`diagnose.phases.walk`); what C++ frames say comes on top:

- A frame of the autograd engine makes it backward, whatever Python stands further out; on the engine's own thread even
  a module's forward is a recompute. An optimizer that steps inside a hook is still an optimizer.
- An operator of a layer (convolution, attention, ...) outside any module is forward, possibly.

A function of the user's own with a telling name proves little: such a phase is possible, not certain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.phases.walk import Decision, decide_marked
from oomph.diagnose.snapshot.labels_frames import NOTHING, Mark, mark_of
from oomph.diagnose.snapshot.model import How
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.stacks import Frame, Stacks
from oomph.phases import Phase

_PHASE_NUMBER = {phase: number for number, phase in enumerate(Phase)}
_CATEGORY_NUMBER = {category: number for number, category in enumerate(CATEGORIES)}
_CERTAINTY_NUMBER = {certainty: number for number, certainty in enumerate(Certainty)}

#: Which of several speaking frames is believed: the more special one.
_RANK = (
    Category.WORKSPACE,
    Category.COMMUNICATION,
    Category.GRADIENTS,
    Category.OPTIMIZER_STATE,
    Category.PARAMETERS,
)


@dataclass(frozen=True)
class Label:
    """What one stack says.

    phase: with `certainty`; `how` is How.FRAMES, or How.NONE with Phase.UNKNOWN. category: what the frames speak for by
    themselves (a cuBLAS workspace, AccumulateGrad, Module.to, ...), UNKNOWN where only the life of a block can tell.
    engine: ran inside the autograd engine. recompute: a checkpoint's forward inside backward. no_grad: below a function
    decorated with torch.no_grad or inference_mode, or in evaluation. trains: below a function called train, fit or
    training_step. passing: gradient clipping, or the gradient of the loss itself. optimizer_code: inside a library's
    optimizer. cast: autocast made it, as a copy of an operator's argument. cpp: has frames of C++.
    """

    phase: Phase = Phase.UNKNOWN
    certainty: Certainty = Certainty.POSSIBLE
    how: How = How.NONE
    category: Category = Category.UNKNOWN
    category_certainty: Certainty = Certainty.POSSIBLE
    place: Frame | None = None
    engine: bool = False
    recompute: bool = False
    no_grad: bool = False
    trains: bool = False
    passing: bool = False
    optimizer_code: bool = False
    cast: bool = False
    cpp: bool = False


NO_STACK = Label()


@dataclass(frozen=True, eq=False)
class LabelColumns:
    """Labels of many stacks as arrays, one entry per stack number that was asked for.

    phase, category and the certainties are indices into tuple(Phase), CATEGORIES and tuple(Certainty).
    """

    phase: NDArray[np.int8]
    certainty: NDArray[np.int8]
    category: NDArray[np.int8]
    category_certainty: NDArray[np.int8]
    recompute: NDArray[np.bool_]
    no_grad: NDArray[np.bool_]
    trains: NDArray[np.bool_]
    passing: NDArray[np.bool_]
    optimizer_code: NDArray[np.bool_]
    cast: NDArray[np.bool_]
    engine: NDArray[np.bool_]
    cpp: NDArray[np.bool_]


class Labels:
    """Labels of the stacks of one snapshot, each computed when first asked for."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._marks: dict[tuple[str, str], Mark] = {}
        self._decisions: dict[tuple[tuple[str, str], ...], Decision | None] = {}
        self._labels: dict[int, Label] = {}

    def of(self, number: int) -> Label:
        """The label of a stack; one that says nothing for -1."""
        if number < 0:
            return NO_STACK
        label = self._labels.get(number)
        if label is None:
            label = self._labels[number] = self._judge(self._stacks.frames(number))
        return label

    def columns(self, numbers: NDArray[np.int32]) -> LabelColumns:
        """The labels of these stacks (any length; -1 where there is none)."""
        highest = int(numbers.max(initial=-1))
        asked = np.bincount(numbers[numbers >= 0], minlength=highest + 1)
        # The last row stands for "no stack": index -1 finds it.
        labels = [self.of(number) if asked[number] else NO_STACK for number in range(highest + 1)] + [
            NO_STACK
        ]

        def column(values: list[int]) -> NDArray[np.int8]:
            return np.array(values, np.int8)[numbers]

        def flag(values: list[bool]) -> NDArray[np.bool_]:
            return np.array(values, bool)[numbers]

        return LabelColumns(
            phase=column([_PHASE_NUMBER[one.phase] for one in labels]),
            certainty=column([_CERTAINTY_NUMBER[one.certainty] for one in labels]),
            category=column([_CATEGORY_NUMBER[one.category] for one in labels]),
            category_certainty=column([_CERTAINTY_NUMBER[one.category_certainty] for one in labels]),
            recompute=flag([one.recompute for one in labels]),
            no_grad=flag([one.no_grad for one in labels]),
            trains=flag([one.trains for one in labels]),
            passing=flag([one.passing for one in labels]),
            optimizer_code=flag([one.optimizer_code for one in labels]),
            cast=flag([one.cast for one in labels]),
            engine=flag([one.engine for one in labels]),
            cpp=flag([one.cpp for one in labels]),
        )

    def _judge(self, frames: tuple[Frame, ...]) -> Label:
        speaking: list[tuple[str, str]] = []
        marks: list[Mark] = []
        place: Frame | None = None
        python: Frame | None = None
        cpp = False
        known = self._marks
        for frame in frames:
            key = (frame.function, frame.file)
            mark = known.get(key)
            if mark is None:
                mark = known[key] = mark_of(frame)
            if mark is NOTHING:  # most frames: the interpreter, the dispatcher
                cpp = True
                continue
            marks.append(mark)
            if mark.pair is not None:
                speaking.append(key)
            if not mark.python:
                cpp = True
            elif python is None or (place is None and mark.users):
                python = python or frame
                place = frame if mark.users else place
        deciding = tuple(speaking)
        if deciding not in self._decisions:
            pairs = (mark.pair for mark in reversed(marks))
            self._decisions[deciding] = decide_marked(pair for pair in pairs if pair is not None)
        label = _Judge(marks, self._decisions[deciding], python is not None).label
        return replace(label, place=place or python, cpp=cpp)


class _Judge:
    """The frames of a stack that say anything, innermost first, and what the walk made of them. `python`: whether any
    frame is Python's."""

    def __init__(self, marks: list[Mark], decision: Decision | None, python: bool) -> None:
        self._marks = marks
        self._decision = decision
        self._python = python

    @property
    def label(self) -> Label:
        marks, decision = self._marks, self._decision
        phase, certainty, recompute = self._phase()
        category, category_certainty = self._category(phase)
        no_grad = any(mark.no_grad for mark in marks) or phase in (Phase.EVAL, Phase.GENERATE)
        label = Label(
            phase=phase,
            certainty=certainty,
            how=How.NONE if phase is Phase.UNKNOWN else How.FRAMES,
            category=category,
            category_certainty=category_certainty,
            engine=any(mark.engine for mark in marks),
            recompute=recompute,
            no_grad=no_grad,
            trains=any(mark.trains for mark in marks),
            passing=any(mark.passing for mark in marks),
            optimizer_code=any(mark.optimizer_code for mark in marks),
            cast=any(mark.cast for mark in marks),
        )
        if decision is None and phase is Phase.UNKNOWN and category is Category.UNKNOWN:
            return self._of_construction(label)
        return label

    def _phase(self) -> tuple[Phase, Certainty, bool]:
        """The phase, how surely, and whether it is a recompute."""
        decision = self._decision
        phase = decision.phase if decision is not None else Phase.UNKNOWN
        recompute = decision is not None and decision.recompute
        if any(mark.engine for mark in self._marks):
            if phase is Phase.OPTIMIZER:
                return phase, Certainty.LIKELY, False
            thread = any(mark.engine_thread for mark in self._marks)
            inside = thread and phase is Phase.FORWARD and not (decision is not None and decision.weak)
            return Phase.BACKWARD, Certainty.CERTAIN, recompute or inside
        if decision is not None:
            return phase, self._surely(decision), recompute
        if not self._python and any(mark.std_thread for mark in self._marks):
            return Phase.BACKWARD, Certainty.POSSIBLE, False
        if any(mark.layer for mark in self._marks):
            return Phase.FORWARD, Certainty.POSSIBLE, False
        return Phase.UNKNOWN, Certainty.POSSIBLE, False

    @staticmethod
    def _surely(decision: Decision) -> Certainty:
        """A frame of a library is what its name says; one of the user's own may be named for something else."""
        if decision.weak:
            return Certainty.POSSIBLE
        file = decision.frame.file
        library = "-packages/" in file or "/torch/" in file
        return Certainty.CERTAIN if library else Certainty.LIKELY

    def _category(self, phase: Phase) -> tuple[Category, Certainty]:
        """What the frames speak for."""
        said = {
            mark.category: mark.certainty for mark in self._marks if mark.category is not Category.UNKNOWN
        }
        for category in _RANK:
            # A hook of AccumulateGrad that steps an optimizer allocates the optimizer's memory.
            if category is Category.GRADIENTS and phase is Phase.OPTIMIZER:
                continue
            if category is Category.GRADIENTS and category in said and self._python:
                return category, Certainty.POSSIBLE  # a hook of the user's own can allocate anything
            if category in said:
                return category, said[category]
        return Category.UNKNOWN, Certainty.POSSIBLE

    def _of_construction(self, label: Label) -> Label:
        """Modules that make modules: the innermost frames of the user's own are one __init__ below another. They make
        parameters, possibly, where nothing of torch.nn says so. An optimizer of the user's own makes its state."""
        users = [mark for mark in self._marks if mark.users]
        if users and users[0].makes_optimizer:
            return replace(
                label,
                phase=Phase.INIT,
                how=How.FRAMES,
                category=Category.OPTIMIZER_STATE,
                category_certainty=Certainty.POSSIBLE,
            )
        if len(users) >= 2 and users[0].makes and users[1].makes:
            return replace(
                label,
                phase=Phase.LOAD,
                how=How.FRAMES,
                category=Category.PARAMETERS,
                category_certainty=Certainty.POSSIBLE,
            )
        return label
