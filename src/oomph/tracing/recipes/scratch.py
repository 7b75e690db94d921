"""Watches rules whose scratch memory appears at some sizes only, so that a recipe has it as a function of sizes.

A reduction takes a buffer where its thread blocks share a result, and nothing where they do not. What a recipe needs
is not whether it did in the traced run but the call that decides it. So each such call is kept with everything that it
could take, blocks of no bytes among it, to stand in place of what it took.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from oomph.memory.recipe.functions import FUNCTIONS
from oomph.memory.recipe.kernels import EMBEDDING_BLOCKS
from oomph.tracing.kernels.rule import Call, Effect, KernelRule, RuleSet, Take
from oomph.tracing.recipes.stream import Seen

#: A sum over leading dimensions of a large tensor may run as several kernels; a recipe has so many of them.
_MOST_PARTS = 4
#: The embedding's blocks that are given back at once, and what else goes with them.
_AT_ONCE = {"sort": ("sort", "range"), "unique": ("unique",), "scan": ("scan",)}


@dataclass(frozen=True)
class Could:
    """One step of what a call could do: a block is taken (`block`), given back (`block` None), or, with no name, the
    next result is allocated."""

    name: str
    block: Seen | None = None


@dataclass(frozen=True)
class Launch:
    """One call. It came when `events` events had been recorded, and made `results` results and `taken` other blocks,
    all of those given back when it ended; `steps` stand for all of that."""

    events: int
    results: int
    taken: int
    steps: tuple[Could, ...]


@dataclass
class Watch:
    """The calls in order. `count` says how many events were recorded."""

    launches: list[Launch] = field(default_factory=list)
    count: Callable[[], int] = lambda: 0

    def add(self, call: Call, effect: Effect | None, steps: Sequence[Could]) -> None:
        """One call with what the rule said of it."""
        taken = (
            0 if effect is None else sum(isinstance(step, Take) and step.bytes > 0 for step in effect.steps)
        )
        results = len(call.op._schema.returns)  # noqa: SLF001 - the only way to the schema
        self.launches.append(Launch(self.count(), results, taken, tuple(steps)))


class _Watched:
    """A rule under watch."""

    def __init__(self, rule: KernelRule, watch: Watch) -> None:
        self.rule = rule
        self.watch = watch
        self.name, self.operators, self.evidence = rule.name, rule.operators, rule.evidence

    def effect(self, call: Call) -> Effect | None:
        """What the rule says."""
        effect = self.rule.effect(call)
        steps = self.could(call, effect)
        if steps:
            self.watch.add(call, effect, steps)
        return effect

    def could(self, call: Call, effect: Effect | None) -> Sequence[Could]:
        """Everything that the call could do; nothing where it is not to be kept."""
        raise NotImplementedError


class WatchedReduction(_Watched):
    """Reductions: buffers and counters of each kernel that it may be split into, after its results."""

    def could(self, call: Call, effect: Effect | None) -> Sequence[Could]:
        from oomph.tracing.kernels.rules.reduction import described

        found = described(call)
        if found is None or not found.shape:
            return ()
        others = [
            step
            for step in (effect.steps if effect is not None else ())
            if isinstance(step, Take) and not step.name.startswith(("buffer", "counters"))
        ]
        everything = tuple(range(len(found.shape)))
        reduced = tuple(sorted(dim % len(found.shape) for dim in found.dims)) or everything
        parts = 1 if len(found.shape) - 1 in reduced else _MOST_PARTS
        numbers: tuple[tuple[int, ...], ...] = (
            tuple(found.shape),
            tuple(found.strides),
            reduced,
            (found.itemsize, found.offset, *found.result_itemsizes),
            (found.kernel.accumulated, found.kernel.vt0, found.kernel.most_threads),
            (call.gpu.multiprocessors, call.gpu.threads_per_multiprocessor, _version(call)),
        )
        steps = [Could("")] * len(call.op._schema.returns)  # noqa: SLF001 - the only way to the schema
        steps += [Could(step.name, Seen(step.bytes, _operator(call))) for step in others if step.bytes]
        for part in range(parts):
            names = (f"buffer{part}", f"counters{part}")
            steps += [
                Could(name, _block(call, function, ((part, parts), *numbers)))
                for name, function in zip(names, ("reduce_buffer", "reduce_counters"), strict=True)
            ]
            steps += [Could(names[1]), Could(names[0])]
        return [*steps, *(Could(step.name) for step in others if step.bytes)]


class WatchedEmbedding(_Watched):
    """The gradient of an embedding: sort arrays before the result, sums after it."""

    def could(self, call: Call, effect: Effect | None) -> Sequence[Could]:
        from oomph.tracing.kernels.rules.embedding_backward import described

        del effect
        found = described(call)
        sizes = (
            found.count,
            found.index_bytes,
            found.rows,
            found.columns,
            found.grad_bytes,
            found.sum_bytes,
        )
        gpu = (found.multiprocessors, _version(call))
        steps: list[Could] = []
        held: list[str] = []
        for number, name in enumerate(EMBEDDING_BLOCKS):
            if name == "segments":
                steps.append(Could(""))
            steps.append(Could(name, _block(call, "embedding_scratch", (number, sizes, gpu))))
            held.append(name)
            for gone in _AT_ONCE.get(name, ()):
                steps.append(Could(gone))
                held.remove(gone)
        return [*steps, *map(Could, held)]


def _block(call: Call, function: str, arguments: tuple[int | tuple[int, ...], ...]) -> Seen:
    size = FUNCTIONS[function](*arguments)
    return Seen(
        size,
        f"{_operator(call)}:{function}",
        scratch=(function, arguments),
        category="temporaries",
        label=_operator(call).removeprefix("aten."),
    )


def _operator(call: Call) -> str:
    return ".".join(str(call.op).split(".")[:2])


def _version(call: Call) -> int:
    return call.torch[0] * 100 + call.torch[1]


_WATCHED = {"reduction": WatchedReduction, "embedding_backward": WatchedEmbedding}


def watched(rules: RuleSet) -> tuple[RuleSet, Watch]:
    """The same rules, with those that need it under watch."""
    watch = Watch()
    found = [_WATCHED[rule.name](rule, watch) if rule.name in _WATCHED else rule for rule in rules.rules]
    return replace(rules, rules=list[KernelRule](found)), watch
