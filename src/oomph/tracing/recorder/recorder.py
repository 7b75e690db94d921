"""The centre of a trace: what runs now, what it has allocated, and what is to be said about it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.categories import CATEGORIES, Category
from oomph.phases import Phase
from oomph.tracing.kernels.rule import RuleSet
from oomph.tracing.patching import Patches
from oomph.tracing.recorder import categories
from oomph.tracing.recorder.blocks import Block
from oomph.tracing.recorder.memory import DeviceMemory, Frames
from oomph.tracing.recorder.oom import message
from oomph.tracing.recorder.stacks import StackRecorder, hidden_files
from oomph.tracing.recorder.storages import Storages
from oomph.tracing.settings import TraceSettings

PHASES = tuple(Phase)
#: `on_tick` functions are called every so many operators.
TICK = 4096


class TraceEnd(BaseException):
    """The wanted number of optimizer steps is done. No `except Exception` of the script catches it."""


class Recorder:
    """One per trace. Nothing here is exact to a thread: the script's threads run one at a time.

    `on_alloc` functions get (block, tensor or None, operator or None) after each allocation; `on_step` ones run after
    each optimizer step, `on_tick` ones every TICK operators, `on_stop` ones when memory runs out and at the end.
    """

    def __init__(self, settings: TraceSettings, patches: Patches, rules: RuleSet) -> None:
        self.settings = settings
        self.patches = patches
        self.rules = rules
        self.now = [PHASES.index(Phase.LOAD), 0]
        self.storages = Storages(self)
        self.stacks = StackRecorder(hidden_files())
        self.suspensions = 0
        self.operators = 0
        self.lingers = False
        self.inside = 0
        self.label = -1
        self.labels: list[str] = []
        self.unruled: dict[str, list[int]] = {}
        self.uncertain_bytes = 0
        self.suppressed: dict[str, None] = {}
        self.assumptions: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.on_alloc: list[Callable[[Block, Any, Any], None]] = []
        self.on_step: list[Callable[[], None]] = []
        self.on_tick: list[Callable[[], None]] = []
        self.on_stop: list[Callable[[], None]] = []
        self.kernel_memory: dict[object, Any] = {}
        self.kept: list[Block] = []
        self._label_numbers: dict[str, int] = {}
        self._devices: dict[int, DeviceMemory] = {}
        self._streams: dict[int, int] = {}
        self._window: dict[int, int] = {}

    # -- memory ---------------------------------------------------------------------------------------------------

    def memory(self, device: int = 0) -> DeviceMemory:
        """The simulated memory of a device, which is there from its first use."""
        found = self._devices.get(device)
        if found is None:
            found = self._devices[device] = DeviceMemory(device, self.settings, self.now)
        return found

    @property
    def devices(self) -> dict[int, DeviceMemory]:
        """The devices that were used, by index."""
        return self._devices

    def alloc(
        self,
        size_bytes: int,
        *,
        device: int = 0,
        stream: int | None = None,
        label: str = "",
        category: Category | None = None,
        pool: tuple[int, int] = (0, 0),
    ) -> Block:
        """A block of `size_bytes` > 0. Raises torch's OutOfMemoryError when the card is full."""
        block = self.take(device, size_bytes, stream, pool)
        if category is not None:
            block.category = CATEGORIES.index(category)
        if label:
            block.operator = self.label_number(label)
        for function in self.on_alloc:
            function(block, None, label)
        return block

    def take(
        self, device: int, size: int, stream: int | None = None, pool: tuple[int, int] = (0, 0)
    ) -> Block:
        """`alloc` without a name, for what names its block itself."""
        if self.lingers and not self.inside:
            # What backward or a step leaves behind is freed in their phase; the next thing that needs memory is not
            # theirs.
            self.lingers = False
            self.now[0] = PHASES.index(Phase.FORWARD)
        frames = self.frames()
        if stream is None:
            stream = self._streams.get(device, 0)
        try:
            block = self.memory(device).alloc(size, stream, frames, pool)
        except DeviceOutOfMemory as error:
            import torch

            if self.current_phase is Phase.FORWARD:
                # No backward will say what it finds; what forward made so far was made for one.
                categories.activations(self)
            self.stopped()
            text = message(error, device, self.settings, self.memory(device).allocator)
            raise torch.OutOfMemoryError(text) from None
        block.label = self.label
        return block

    def free(self, block: Block) -> None:
        """Gives a block back."""
        self.memory(block.device).free(block, self.frames())

    def frames(self) -> Frames | None:
        """The Python stack here, or None when stacks are not wanted."""
        return self.stacks.take(sys._getframe(1)) if self.settings.stacks else None  # noqa: SLF001

    def empty_cache(self, device: int | None = None) -> None:
        """As `torch.cuda.empty_cache()`, which empties the caches of all devices."""
        for memory in list(self._devices.values()):
            if device is None or memory.index == device:
                memory.empty_cache(self.frames())

    def mark_window(self, begin: bool) -> None:
        """The script's own recording of memory history begins, or what it recorded was written out."""
        if begin:
            self.memory(0)
            for index, memory in self._devices.items():
                self._window[index] = len(memory)
            return
        for index, memory in self._devices.items():
            first = self._window.get(index)
            if first is not None:
                memory.windows.append((first, len(memory)))

    # -- streams --------------------------------------------------------------------------------------------------

    def current_stream(self, device: int = 0) -> int:
        """The number of the stream that operators run on; 0 is the default one."""
        return self._streams.get(device, 0)

    def set_stream(self, device: int, stream: int) -> None:
        """Operators on the device run on this stream from here on."""
        self._streams[device] = stream

    def record_stream(self, tensor: Any, stream: int) -> None:
        """As `Tensor.record_stream`: the tensor's memory is used on that stream too."""
        block = self.storages.block_of(tensor)
        if block is not None and block.address:
            self.memory(block.device).allocator.record_stream(block.address, stream)

    def synchronize(self, device: int | None = None, stream: int | None = None) -> None:
        """The host waited for a stream (None: all): what waited for its work can be reused."""
        for memory in self._devices.values():
            if device is None or memory.index == device:
                memory.complete(stream)

    # -- what runs ------------------------------------------------------------------------------------------------

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Nothing is recorded inside."""
        self.suspensions += 1
        try:
            yield
        finally:
            self.suspensions -= 1

    @property
    def current_phase(self) -> Phase:
        return PHASES[self.now[0]]

    def set_phase(self, phase: Phase) -> None:
        """What follows belongs to this phase."""
        self.now[0] = PHASES.index(phase)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """What happens inside belongs to this phase."""
        before = self.now[0]
        self.now[0] = PHASES.index(phase)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
            if self.inside or not self.lingers:
                self.now[0] = before

    @property
    def steps_done(self) -> int:
        return self.now[1]

    def backward_begins(self) -> None:
        """Autograd's engine starts (the outermost call)."""
        categories.activations(self)

    def module_gets(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What a module gets that no other module calls."""
        categories.inputs(self, args)
        categories.inputs(self, kwargs.values())

    def module_called(self, module: Any) -> None:
        """A module is called that no other module calls, for the first time."""
        categories.parameters(self, module.named_parameters())
        categories.parameters(self, module.named_buffers())

    def step_begins(self, optimizer: Any) -> None:
        """An optimizer's step begins."""
        for group in optimizer.param_groups:
            categories.parameters(self, ((None, one) for one in group["params"]))
            categories.gradients(self, group["params"])

    def step_ends(self, optimizer: Any) -> None:
        """An optimizer's step is done."""
        categories.optimizer_state(self, optimizer)

    def step_done(self, steps: int) -> None:
        """`steps` optimizer steps are done. Raises TraceEnd when that is all that was wanted."""
        if steps <= self.now[1]:
            return
        self.now[1] = steps
        for function in self.on_step:
            function()
        if self.settings.steps is not None and steps >= self.settings.steps:
            raise TraceEnd

    def tick(self) -> None:
        """Called every TICK operators."""
        for function in self.on_tick:
            function()

    def stopped(self) -> None:
        """Memory ran out, or the trace ends: a last look at what is there."""
        with self.suspended():
            for function in self.on_stop:
                function()

    # -- words ----------------------------------------------------------------------------------------------------

    def label_number(self, text: str) -> int:
        """The number of a label in `labels`."""
        number = self._label_numbers.get(text)
        if number is None:
            number = self._label_numbers[text] = len(self.labels)
            self.labels.append(text)
        return number

    def note(self, text: str) -> None:
        """Something the reader has to know."""
        self.notes.setdefault(text)

    def assume(self, text: str) -> None:
        """What stood in for something that only a GPU, or the network, gives."""
        self.assumptions.setdefault(text)

    def suppress(self, text: str) -> None:
        """Something that would have been written or sent."""
        self.suppressed.setdefault(text)

    def unknown_operator(self, name: str, largest_bytes: int) -> None:
        """An operator of which the kernel memory model says nothing ran; its largest tensor had so many bytes."""
        seen = self.unruled.setdefault(name, [0, 0])
        seen[0] += 1
        seen[1] = max(seen[1], largest_bytes)


_running: list[Recorder] = []


def current() -> Recorder | None:
    """The recorder of the trace that runs now."""
    return _running[-1] if _running else None


def enter(recorder: Recorder) -> None:
    """Makes it the current one. Called by the session."""
    _running.append(recorder)


def leave(recorder: Recorder) -> None:
    """Takes it away. Called by the session."""
    _running.remove(recorder)
