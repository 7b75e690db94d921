"""Runs a training step on the simulated GPU and keeps what it did to memory as a stream."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from oomph.hardware.gpus import Gpu
from oomph.memory.categories import CATEGORIES
from oomph.phases import Phase
from oomph.tracing.model import Exact
from oomph.tracing.recipes.families import Dimensions, Family
from oomph.tracing.recipes.scratch import NEXT, REST, Launch, watched
from oomph.tracing.recipes.step import Choice, train
from oomph.tracing.recipes.stream import Hold, Seen, Stream
from oomph.tracing.recorder.blocks import Block
from oomph.tracing.recorder.kernels import Kernels
from oomph.tracing.recorder.memory import ALLOC, FREE_REQUESTED, DeviceMemory
from oomph.tracing.recorder.recorder import Recorder
from oomph.tracing.settings import TraceSettings, Version

_LAYER = re.compile(r"(?<=\.)\d+(?=\.|$)")


@dataclass(frozen=True)
class _Mark:
    events: int
    section: str
    phase: Phase


def observe(
    family: Family, dimensions: Dimensions, choice: Choice, gpu: Gpu, torch: Version, steps: int
) -> Stream:
    """What training a model of these dimensions does. The GPU's own dimensions are added to the stream's."""
    from oomph.tracing.kernels.blas import workspace_bytes
    from oomph.tracing.kernels.registry import all_rules
    from oomph.tracing.session import Session

    marks: list[_Mark] = []
    tensors: dict[int, Seen] = {}
    rules, watch = watched(all_rules())
    session = Session(TraceSettings(gpu, torch, stacks=False), rules)
    with session:
        recorder = session.recorder
        assert recorder is not None
        memory = recorder.memory(0)
        watch.count = memory.__len__

        def run(original: Any, *arguments: Any) -> Any:
            try:
                return original(*arguments)
            finally:
                watch.end()

        recorder.patches.wrap(Kernels, "run", run)
        unordered = _watch_autocast(recorder)

        def seen(block: Block, tensor: Any, operator: Any) -> None:
            tensors[block.number] = _seen(block, tensor, getattr(operator, "name", operator) or "")

        recorder.on_alloc.append(seen)
        train(family, dimensions, choice, lambda *mark: marks.append(_Mark(len(memory), *mark)), steps)
        kept = {block.number for block in recorder.kept}
        doubt = recorder.uncertain_bytes
    _tell(tensors, session.trace().devices[0].exact, kept)
    where = {
        **dimensions,
        "sms": gpu.multiprocessors,
        "sm_threads": gpu.threads_per_multiprocessor,
        "capability": gpu.capability[0] * 10 + gpu.capability[1],
        "blas_workspace": workspace_bytes(gpu, torch),
    }
    stream = _Builder(memory, tensors, watch.launches, marks, unordered).stream(where)
    stream.doubt = doubt
    return stream


def _tell(seen: dict[int, Seen], exact: Exact, kept: Set[int]) -> None:
    """Adds what is known after the run: what each block is for, where it comes from, and which were kept."""
    for number, one in seen.items():
        seen[number] = replace(
            one,
            hold=Hold.KEPT if number in kept else Hold.FREED,
            category=CATEGORIES[exact.category[number]].value,
            label=_LAYER.sub("*", exact.labels[exact.label[number]]),
        )


def _watch_autocast(recorder: Recorder) -> list[tuple[int, int]]:
    """Where autocast forgets the weights that it has cast: ranges of events, which grow as the trace does.

    It does so in the order of a hash table keyed by addresses, which is another in each process. Nothing is allocated
    in between, so the order decides nothing."""
    import torch

    memory = recorder.memory(0)
    ranges: list[tuple[int, int]] = []

    def clear(original: Any) -> None:
        begin = len(memory)
        original()
        if len(memory) > begin:
            ranges.append((begin, len(memory)))

    recorder.patches.wrap(torch, "clear_autocast_cache", clear)
    return ranges


def _seen(block: Block, tensor: Any, operator: str) -> Seen:
    if tensor is None:
        return Seen(block.size, operator)
    shape = tuple(int(size) for size in tensor.shape)
    itemsize = int(tensor.dtype.itemsize)
    count = itemsize
    for size in shape:
        count *= size
    # A result may lie on a larger storage than it shows; then only the bytes are known.
    return Seen(block.size, operator, shape if count == block.size else None, itemsize, True)


class _Builder:
    """Walks the recorded events once. What a watched call took is left out, and what it could take is put in."""

    def __init__(
        self,
        memory: DeviceMemory,
        seen: Mapping[int, Seen],
        launches: Sequence[Launch],
        marks: Sequence[_Mark],
        unordered: Sequence[tuple[int, int]],
    ) -> None:
        self.seen = seen
        self.launches = deque(launches)
        self.marks = deque(marks)
        self.unordered = deque(unordered)
        self.kinds, self.addresses = memory.kind, memory.address
        self.at: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self.allocs = 0

    def stream(self, dimensions: Mapping[str, int]) -> Stream:
        stream = Stream(dict(dimensions))
        event = 0
        while event < len(self.kinds):
            while self.marks and self.marks[0].events <= event:
                self._cut(stream, self.marks.popleft())
            if not self.marks:
                break
            if self.launches and self.launches[0].begin <= event:
                launch = self.launches.popleft()
                self._launch(stream, launch)
                event = launch.end
                continue
            if self.unordered and self.unordered[0][0] <= event:
                begin, end = self.unordered.popleft()
                self._forget(stream, begin, end)
                event = end
                continue
            number = self._step(event)
            if number is not None and number >= 0:
                self.numbers[number] = stream.alloc(self.seen[number])
            elif number is not None:
                stream.free(self.numbers[~number])
            event += 1
        for mark in self.marks:
            self._cut(stream, mark)
        return stream

    def _cut(self, stream: Stream, mark: _Mark) -> None:
        stream.cut(mark.section, mark.phase.value)

    def _forget(self, stream: Stream, begin: int, end: int) -> None:
        """Frees without an order of their own: oldest block first."""
        found = [number for event in range(begin, end) if (number := self._step(event)) is not None]
        for number in sorted(self.numbers[~number] for number in found):
            stream.free(number)

    def _step(self, event: int) -> int | None:
        """The number of the block that an event allocates, `~number` for one that it frees."""
        if self.kinds[event] == ALLOC:
            self.at[self.addresses[event]] = self.allocs
            self.allocs += 1
            return self.allocs - 1
        if self.kinds[event] == FREE_REQUESTED:
            return ~self.at.pop(self.addresses[event])
        return None

    def _launch(self, stream: Stream, launch: Launch) -> None:
        """Passes over what a call did, and puts in what it could do."""
        results = deque[int]()
        for event in range(launch.begin, launch.end):
            number = self._step(event)
            if number is not None and number >= 0 and self.seen[number].result:
                results.append(number)
        held: dict[str, int] = {}
        for step in launch.steps:
            if step in (NEXT, REST):
                for _ in range(1 if step is NEXT else len(results)):
                    number = results.popleft()
                    self.numbers[number] = stream.alloc(self.seen[number])
            elif step.block is not None:
                held[step.name] = stream.alloc(step.block)
            else:
                stream.free(held.pop(step.name))
