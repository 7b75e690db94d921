"""Steps of training, and evaluation, of a model with several stacks: its log (stacks_play.py) as templates between the
hooks of the sharding strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from oomph.errors import UsageError
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose.evaluate import evaluating, save
from oomph.predict.compose.keys import key_of
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.stacks import Stacks
from oomph.predict.compose.stacks_play import Arrival, Cut, Played, Way, play
from oomph.predict.compose.step import Step, micro_batches
from oomph.predict.compose.units import Units
from oomph.predict.optimizers import stepper_for
from oomph.predict.sharding.base import Grad, UnitParameter
from oomph.predict.sharding.choose import strategy_for
from oomph.predict.sink import Sink, Template


@dataclass(frozen=True)
class Stretch:
    """What runs between two cuts. `handed`: numbers in the log of the blocks that it frees and did not make; `own`: of
    those that it makes. `grads`: what came to parameters meanwhile."""

    unit: int
    where: str
    template: Template
    handed: tuple[int, ...]
    own: tuple[int, ...]
    grads: tuple[Arrival, ...] = ()


@dataclass(frozen=True)
class Whole:
    """A played model, ready for sinks."""

    forward: tuple[Stretch, ...]
    backward: tuple[Stretch, ...]
    kept: tuple[int, ...]
    attributes: tuple[int, ...]
    inputs: int


def whole(played: Played) -> Whole:
    """The log in stretches."""
    end = len(played.heap.events)
    return Whole(
        _stretches(played, played.forward, played.end),
        _stretches(played, played.backward, end) if played.backward else (),
        tuple(played.kept),
        tuple(dict.fromkeys(played.attributes)),
        played.inputs,
    )


def _stretches(played: Played, cuts: Sequence[Cut], end: int) -> tuple[Stretch, ...]:
    found: list[Stretch] = []
    for at, cut in enumerate(cuts):
        until = cuts[at + 1].event if at + 1 < len(cuts) else end
        last = at + 1 == len(cuts)
        grads = tuple(
            each for each in played.grads if cut.event < each.event <= until or (last and each.event > until)
        )
        if until > cut.event or cut.unit:
            found.append(_stretch(played, cut, until, grads))
    return tuple(found)


def _stretch(played: Played, cut: Cut, until: int, grads: tuple[Arrival, ...]) -> Stretch:
    heap = played.heap
    events = heap.events[cut.event : until]
    own = [event for event in events if event >= 0]
    made = set(own)
    handed = [~event for event in events if event < 0 and ~event not in made]
    numbers = {number: local for local, number in enumerate((*handed, *own))}
    local = tuple(numbers[event] if event >= 0 else ~numbers[~event] for event in events)
    sizes = tuple(heap.sizes[number] for number in numbers)
    level = peak = top = 0
    for position, event in enumerate(local):
        level += sizes[event] if event >= 0 else -sizes[~event]
        if level > peak:
            peak, top = level, position
    labels = tuple(heap.labels[number] for number in numbers)
    template = Template(local, sizes, labels, len(handed), peak, level, top)
    return Stretch(cut.unit, cut.where, template, tuple(handed), tuple(own), grads)


@dataclass(frozen=True)
class _Keyed:
    """A setup that compares equal to every other, so that the key alone decides."""

    stacks: Stacks

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed)


@lru_cache(maxsize=64)
def _whole(_key: tuple[object, ...], keyed: _Keyed, way: Way) -> Whole:
    return whole(play(keyed.stacks, way))


def whole_of(stacks: Stacks, way: Way) -> Whole:
    """The model played this way; made once and kept."""
    setup = stacks.setup
    key = (*key_of(setup), setup.job.batch, setup.job.checkpointing, stacks.merged)
    return _whole(key, _Keyed(stacks), way)


class StackedForward:
    """One forward. `handles`: of all blocks of the log."""

    def __init__(self, step: StackedStep) -> None:
        self.step = step
        self.kept: list[int] = []
        self.kept_bytes = 0
        self.handles: dict[int, int] = {}

    def run(self) -> None:
        """Every stretch with its unit's hooks."""
        step, sink = self.step, self.step.sink
        sink.phase(Phase.FORWARD, "embedding")
        self.whole = whole_of(step.stacks, step.way())
        step.next_batch(sink.alloc(self.whole.inputs, Category.ACTIVATIONS, "batch"))
        step.sharding.forward_begin()
        step.workspace("forward")
        self.play(self.whole.forward, Phase.FORWARD)
        self.kept = [self.handles[each] for each in self.whole.kept]
        step.sharding.forward_end()

    def play(self, stretches: Sequence[Stretch], phase: Phase) -> None:
        """Stretches of forward."""
        sharding, sink = self.step.sharding, self.step.sink
        for each in stretches:
            sink.phase(phase, each.where)
            if each.unit:
                sharding.forward_before(each.unit)
            self.stretch(each)
            if each.unit:
                sharding.forward_after(each.unit)

    def stretch(self, each: Stretch) -> None:
        """One stretch; what it made is known by its number in the log."""
        handed = [self.handles.pop(number) for number in each.handed]
        made = self.step.sink.play(each.template, handed)
        for number, handle in zip(each.own, made[len(handed) :], strict=True):
            if handle >= 0:
                self.handles[number] = handle


class StackedBackward:
    """Its backward."""

    def __init__(self, step: StackedStep, forward: StackedForward) -> None:
        self.step = step
        self.forward = forward
        self.attributes: list[int] = []

    def run(self) -> None:
        """Every stretch; what came to parameters goes to the strategy with its unit."""
        step, sink, sharding = self.step, self.step.sink, self.step.sharding
        step.begin_backward()
        sink.phase(Phase.BACKWARD, "loss and output layer")
        step.workspace("backward")
        sharding.backward_begin()
        root: list[Grad] = []
        for each in self.forward.whole.backward:
            sink.phase(Phase.BACKWARD, each.where)
            if each.unit:
                sharding.backward_before(each.unit)
            self.forward.stretch(each)
            grads = self._grads(each.grads)
            mine = [grad for grad in grads if step.unit_of(grad.parameter.name) == each.unit]
            root += [grad for grad in grads if grad not in mine]
            if each.unit:
                sharding.backward_after(each.unit, mine)
            else:
                root += mine
        sharding.backward_after(0, root)
        visited = {each.unit for each in self.forward.whole.backward}
        for unit in range(1, len(step.units.units)):
            if unit not in visited:
                sharding.backward_after(unit, [])
        sharding.backward_end()
        handles = self.forward.handles
        self.attributes = [handles[each] for each in self.forward.whole.attributes if each in handles]

    def _grads(self, arrivals: Sequence[Arrival]) -> list[Grad]:
        step, handles = self.step, self.forward.handles
        found = [
            Grad(handles.pop(each.number), step.parameter_of(each.parameter, each.bytes), each.bytes)
            for each in arrivals
            if each.number in handles
        ]
        if not step.stepper.in_backward:
            return found
        for grad in found:
            step.use_up(grad)
        return []


@dataclass
class StackedStep(Step):
    """Composes the steps on a sink."""

    stacks: Stacks = field(kw_only=True)
    _unit_by_name: dict[str, int] = field(default_factory=dict)

    def stepped(self) -> tuple[UnitParameter, ...]:
        """Parameters that the loss does not come from have no gradient, and no state (LLaVA reads the layer before an
        image encoder's last)."""
        reached = {
            grad.parameter for each in whole_of(self.stacks, self.way()).backward for grad in each.grads
        }
        idle = {
            each.name
            for unit in self.units.units
            for each in unit.parameters
            if each.trainable and each.name not in reached
        }
        return tuple(each for each in super().stepped() if each.name not in idle)

    def pass_forward(self) -> StackedForward:
        """A forward."""
        return StackedForward(self)

    def pass_backward(self, forward: StackedForward) -> StackedBackward:
        """Its backward."""
        return StackedBackward(self, forward)

    def way(self) -> Way:
        """How the model is played."""
        job, code = self.setup.job, self.setup.code
        checkpointing = job.checkpointing
        reentrant = code.reentrant if checkpointing.reentrant is None else checkpointing.reentrant
        every = 0 if checkpointing.mode == "none" else max(1, checkpointing.every)
        layers = [
            (stack, layer)
            for stack in self.stacks.variant.stacks
            for layer in range(self.stacks.depth(stack))
        ]
        return Way(
            accumulates=self.sharding.holds_gradients(),
            recomputed=frozenset(each for each in layers if every and each[1] % every == 0),
            early=not reentrant,
            leaf=bool(every) and (code.inputs_want_gradients or job.method.lora is not None),
            keeps=code.logits_through_backward,
        )

    def unit_of(self, name: str) -> int:
        """The unit that a parameter is in, by its whole name."""
        if not self._unit_by_name:
            for number, unit in enumerate(self.units.units):
                self._unit_by_name.update({each.name: number for each in unit.parameters})
        return self._unit_by_name.get(name, 0)

    def parameter_of(self, name: str, size_bytes: int) -> UnitParameter:
        """A parameter by its whole name."""
        return self._parameter(name, size_bytes)

    def use_up(self, grad: Grad) -> None:
        """The optimizer steps with a gradient that goes at once."""
        self.stepper.step(self.sink, (grad.parameter,), self._first)
        self.sink.free(grad.handle)


def compose_stacks(setup: Setup, sink: Sink, steps: int = 2) -> StackedStep:
    """Plays steps of the job, its evaluation and saving on a sink. Raises UsageError, beginning with "unsupported:",
    for what is not modelled."""
    stacks = Stacks(setup)
    if setup.joins:
        raise UsageError(
            f"unsupported: frozen parameters beside trainable ones in FSDP1's flat parameters, of the family "
            f"{setup.job.model.family}; `oomph trace` runs the training script itself."
        )
    found = stacks.units
    units = Units(found, tuple(range(1, len(found))), 0, 0)
    step = StackedStep(
        setup,
        sink,
        strategy_for(setup.job, found, sink, setup.code, micro_batches=micro_batches(setup.job)),
        stepper_for(setup.job),
        units,
        stacks=stacks,
    )
    step.load()
    step.train(steps)
    if setup.job.evaluation.batch:
        evaluate(step)
    save(step)
    return step


def evaluate(step: StackedStep) -> None:
    """One forward without gradients beside the predictions that were collected before it."""
    stacks = Stacks(evaluating(step.setup))
    sink = step.sink
    sink.phase(Phase.EVAL, "evaluation")
    forward = StackedForward(step)
    its = whole_of(stacks, Way(grad=False))
    inputs = sink.alloc(its.inputs, Category.ACTIVATIONS, "batch")
    step.sharding.forward_begin()
    forward.play(its.forward, Phase.EVAL)
    step.sharding.forward_end()
    for handle in (*forward.handles.values(), inputs):
        sink.free(handle)
