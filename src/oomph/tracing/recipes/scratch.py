"""Watches rules whose scratch memory appears at some sizes only, so that a recipe has it as a function of sizes.

A reduction takes a buffer where its thread blocks share a result, and nothing where they do not. What a recipe needs
is not whether it did in the traced run but the call that decides it. So each such call is kept with everything that it
could take, blocks of no bytes among it, to stand in place of what it took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oomph.memory.recipe.functions import FUNCTIONS
from oomph.memory.recipe.kernels import EMBEDDING_BLOCKS
from oomph.tracing.kernels.arguments import argument, is_tensor, low_precision, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, KernelRule, Output, RuleSet, Take
from oomph.tracing.recipes.stream import Seen

#: A sum over leading dimensions of a large tensor may run as several kernels; a recipe has so many of them.
_MOST_PARTS = 4
#: The embedding's blocks that are given back at once, and what else goes with them.
_AT_ONCE = {"sort": ("sort", "range"), "unique": ("unique",), "scan": ("scan",)}


@dataclass(frozen=True)
class Could:
    """One step of what a call could do: a block is taken (`block`), given back (`block` None), or a result is
    allocated: the next one (NEXT) or all that are left (REST)."""

    name: str
    block: Seen | None = None


NEXT, REST = Could("next"), Could("rest")


@dataclass
class Launch:
    """One call: its events are those from `begin` to `end`; `steps` stand for them."""

    begin: int
    steps: tuple[Could, ...]
    end: int = 0


@dataclass
class Watch:
    """The calls in order. `count` says how many events were recorded."""

    launches: list[Launch] = field(default_factory=list)
    count: Callable[[], int] = lambda: 0
    _open: bool = False

    def begin(self, steps: Sequence[Could]) -> None:
        """A call to keep begins."""
        self.launches.append(Launch(self.count(), tuple(steps)))
        self._open = True

    def end(self) -> None:
        """An operator has ended."""
        if self._open:
            self.launches[-1].end = self.count()
            self._open = False


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
            self.watch.begin(steps)
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
            if isinstance(step, Take) and not step.name.startswith(("buffer", "counters", "accumulator"))
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
        steps = [REST]
        steps += [Could(step.name, Seen(step.bytes, _operator(call))) for step in others if step.bytes]
        half = low_precision(call.args[0])
        if half:
            steps.append(Could("accumulator", _block(call, "reduce_accumulator", numbers[:-1])))
        for part in range(parts):
            names = (f"buffer{part}", f"counters{part}")
            steps += [
                Could(name, _block(call, function, ((part, parts), *numbers)))
                for name, function in zip(names, ("reduce_buffer", "reduce_counters"), strict=True)
            ]
            steps += [Could(names[1]), Could(names[0])]
        last = [step.name for step in others if step.bytes]
        return [*steps, *map(Could, [*last, "accumulator"] if half else last)]


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
                steps.append(REST)
            steps.append(Could(name, _block(call, "embedding_scratch", (number, sizes, gpu))))
            held.append(name)
            for gone in _AT_ONCE.get(name, ()):
                steps.append(Could(gone))
                held.remove(gone)
        return [*steps, *map(Could, held)]


class WatchedFlash(_Watched):
    """Flash attention: partial results where the keys are split."""

    def could(self, call: Call, effect: Effect | None) -> Sequence[Could]:
        del effect
        query, key = call.args[:2]
        batch, heads, rows, size = map(int, query.shape)
        if float(argument(call, 3, "dropout_p", 0.0)) or rows == 1:
            return ()
        sizes = (batch, heads, rows, int(key.shape[2]), size)
        partials = [
            Could(str(which), _block(call, "flash_partials", (which, sizes, call.gpu.multiprocessors)))
            for which in (0, 1)
        ]
        return [NEXT, NEXT, *partials, REST, Could("0"), Could("1")]


class WatchedFlashBackward(_Watched):
    """Flash attention's backward: the sizes of its float32 sums."""

    def could(self, call: Call, effect: Effect | None) -> Sequence[Could]:
        batch, heads, rows, size = map(int, call.args[1].shape)
        sums = ("flash_query_sums", ((batch, heads, rows, size),))
        known = {
            "query_sums": _block(call, *sums),
            "row_sums": _block(call, "flash_row_sums", ((batch, heads, rows),)),
        }
        return _converted(call, effect, known)


class WatchedEfficientBackward(_Watched):
    """Memory-efficient attention's backward: the size of its workspace."""

    def could(self, call: Call, effect: Effect | None) -> Sequence[Could]:
        query, key, value = call.args[1:4]
        batch, heads, rows, size = map(int, query.shape)
        sizes = (batch, heads, rows, int(key.shape[2]), size, int(value.shape[-1]))
        dropout = float(argument(call, 9, "dropout_p", 0.0)) > 0
        kind = (int(low_precision(query)), call.gpu.capability[0] * 10 + call.gpu.capability[1], int(dropout))
        known = {"workspace": _block(call, "efficient_workspace", (sizes, kind))}
        return _converted(call, effect, known)


class WatchedLayerNorm(_Watched):
    """A layer norm's gradients: partial ones of weight and bias where there are very many rows."""

    def could(self, call: Call, effect: Effect | None) -> Sequence[Could]:
        tensor, shape = call.args[1], tuple(call.args[2])
        columns = numel(shape)
        rows = numel(tensor.shape) // columns
        affine = [it for it in call.args[3:7] if is_tensor(it) and tuple(it.shape) == shape]
        gpu = (call.gpu.multiprocessors, _version(call))
        partial = [
            Could(
                f"partial{number}",
                _block(call, "layer_norm_partial", ((rows, columns, it.dtype.itemsize), gpu)),
            )
            for number, it in enumerate(affine)
        ]
        copies = [
            step
            for step in (effect.steps if effect is not None else ())
            if isinstance(step, Take) and not step.name.startswith("partial")
        ]
        before = [Could(step.name, Seen(step.bytes, _operator(call))) for step in copies]
        names = [*(step.name for step in copies), *(each.name for each in partial)]
        return [*before, REST, *partial, *map(Could, names)]


def _converted(call: Call, effect: Effect | None, known: Mapping[str, Seen]) -> list[Could]:
    """The steps of an effect, with what is known of some of its blocks."""
    steps: list[Could] = []
    held: list[str] = []
    for step in effect.steps if effect is not None else ():
        if isinstance(step, Output):
            steps.append(REST)
        elif isinstance(step, Take) and step.bytes:
            steps.append(Could(step.name, known.get(step.name) or Seen(step.bytes, _operator(call))))
            held.append(step.name)
        elif isinstance(step, Give) and step.name in held:
            steps.append(Could(step.name))
            held.remove(step.name)
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


_WATCHED: Mapping[str, Callable[[KernelRule, Watch], KernelRule]] = {
    "embedding_backward": WatchedEmbedding,
    "layer_norm_backward": WatchedLayerNorm,
    "reduction": WatchedReduction,
    "sdpa_efficient_backward": WatchedEfficientBackward,
    "sdpa_flash": WatchedFlash,
    "sdpa_flash_backward": WatchedFlashBackward,
}


def watched(rules: RuleSet) -> tuple[RuleSet, Watch]:
    """The same rules, with those that need it under watch."""
    watch = Watch()
    found = [_WATCHED[rule.name](rule, watch) if rule.name in _WATCHED else rule for rule in rules.rules]
    return replace(rules, rules=list[KernelRule](found)), watch
