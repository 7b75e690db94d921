"""Traces made by hand: a few requests through the simulated allocator, of which everything is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from oomph.memory.allocator import arena
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.timeline import Kind, Timeline
from oomph.phases import Phase
from oomph.tracing.model import Exact, Failed, Trace, TracedDevice
from oomph.units import MIB

_KINDS = {
    arena.SEGMENT_ALLOC: Kind.SEGMENT_ALLOC,
    arena.SEGMENT_FREE: Kind.SEGMENT_FREE,
    arena.SEGMENT_MAP: Kind.SEGMENT_MAP,
    arena.SEGMENT_UNMAP: Kind.SEGMENT_UNMAP,
    arena.OOM: Kind.OOM,
}
SCRIPT = "/home/someone/project/train.py"


class Maker:
    """One device, one request after the other. `phase` and `step` are set by the test."""

    def __init__(self, capacity: int | None = None, conf: str = "", *, stacks: bool = True) -> None:
        self.allocator = CachingAllocator(AllocatorSettings.parse(conf), capacity)
        self.conf, self.capacity, self.stacks = conf, capacity, stacks
        self.phase, self.step = Phase.LOAD, 0
        self.events: list[tuple[int, int, int]] = []
        self.free_bytes: dict[int, int] = {}
        self.frames: list[list[dict[str, Any]]] = []
        self.known: dict[int, list[dict[str, Any]]] = {}
        self.columns: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
        self.labels: list[str] = []
        self.blocks: dict[str, tuple[int, int]] = {}
        self.seen = 0

    def alloc(self, name: str, size: int, category: Category, label: str = "", line: int = 10) -> None:
        try:
            address = self.allocator.malloc(size)
        finally:
            self._driver(line)
        self._event(Kind.ALLOC, address, size, line)
        self.columns[2].append(CATEGORIES.index(category))
        if label not in self.labels:
            self.labels.append(label)
        self.columns[3].append(self.labels.index(label))
        self.blocks[name] = (address, size)

    def free(self, *names: str, line: int = 10) -> None:
        for name in names:
            address, size = self.blocks.pop(name)
            self.allocator.free(address)
            self._event(Kind.FREE_REQUESTED, address, size, line)
            self._event(Kind.FREE_COMPLETED, address, size, line)

    def _driver(self, line: int) -> None:
        for kind, address, size, _ in self.allocator.segment_events[self.seen :]:
            if kind == arena.OOM:
                self.free_bytes[len(self.events)] = address
                address = 0
            self._event(_KINDS[kind], address, size, line)
        self.seen = len(self.allocator.segment_events)

    def _event(self, kind: Kind, address: int, size: int, line: int) -> None:
        self.events.append((int(kind), address, size))
        self.frames.append(self.known.setdefault(line, _stack(line)))
        self.columns[0].append(tuple(Phase).index(self.phase))
        self.columns[1].append(self.step)

    def timeline(self) -> Timeline:
        kinds, addresses, sizes = (np.array(column) for column in zip(*self.events, strict=True))
        count = len(self.events)
        return Timeline(
            kind=kinds.astype(np.int8),
            address=addresses.astype(np.int64),
            size_bytes=sizes.astype(np.int64),
            time_us=np.arange(count, dtype=np.int64),
            stream=np.zeros(count, np.int64),
            pool=np.zeros(count, np.int32),
            pools=((0, 0),),
            free_bytes=self.free_bytes,
            frame_lists=self.frames if self.stacks else None,
        )

    def trace(self, **more: Any) -> Trace:
        exact = Exact(*self.columns, labels=tuple(self.labels))
        device = TracedDevice(0, tuple(self.allocator.layout()), self.timeline(), exact)
        values: dict[str, Any] = {
            "rank": 0,
            "world": 1,
            "gpu": "A100 80GB",
            "torch": "2.13",
            "installed_torch": "2.13.0+cpu",
            "devices": (device,),
            "capacity_bytes": self.capacity,
            "allocator": self.conf,
            "steps_done": self.step,
            "operators": 100,
            "seconds": 1.5,
        }
        return Trace(**{**values, **more})


def _stack(line: int) -> list[dict[str, Any]]:
    package = "/opt/venv/lib/python3.11/site-packages/torch"
    return [
        {"name": "forward", "filename": f"{package}/nn/modules/linear.py", "line": 134},
        {"name": "step", "filename": SCRIPT, "line": line},
        {"name": "<module>", "filename": SCRIPT, "line": 90},
    ]


#: What `training` allocates, in MiB: two parameters, their gradients and Adam's states; two activations of `batch`.
WEIGHTS = {"embed": 40, "head": 60}


def training(
    maker: Maker, *, steps: int = 3, activation: int = 100 * MIB, temporary: int = 30 * MIB
) -> Maker:
    """A training loop: weights 100 MiB; in each step two activations (the first kept for backward, as the second), in
    backward a temporary and gradients of 100 MiB; optimizer states of 200 MiB in the first step."""
    for name, size in WEIGHTS.items():
        maker.alloc(name, size * MIB, Category.PARAMETERS, f"{name}.weight", line=20)
    for step in range(steps):
        one_more_step(maker, step, activation=activation, temporary=temporary)
    return maker


def one_more_step(maker: Maker, step: int, *, activation: int = 100 * MIB, temporary: int = 30 * MIB) -> None:
    """One step of `training`."""
    maker.step, maker.phase = step, Phase.FORWARD
    for number in range(2):
        label = f"layers.{number}.mlp"
        maker.alloc(f"a{number}", activation, Category.ACTIVATIONS, label, line=30 + number)
    maker.phase = Phase.BACKWARD
    maker.alloc("t", temporary, Category.TEMPORARIES, "aten.mm", line=40)
    for number, (name, size) in enumerate(reversed(WEIGHTS.items())):
        maker.alloc(f"g{name}", size * MIB, Category.GRADIENTS, f"{name}.weight", line=40)
        maker.free(f"a{1 - number}", line=40)
    maker.free("t", line=40)
    maker.phase = Phase.OPTIMIZER
    if step == 0:
        for name, size in WEIGHTS.items():
            for state in ("exp_avg", "exp_avg_sq"):
                label = f"{name}.weight"
                maker.alloc(f"{state}{name}", size * MIB, Category.OPTIMIZER_STATE, label, line=50)
    maker.step = step + 1
    maker.free(*(f"g{name}" for name in WEIGHTS), line=51)


def out_of_memory(maker: Maker) -> Trace:
    """`training` that ends when the card is full."""
    try:
        training(maker)
    except DeviceOutOfMemory as error:
        failed = Failed("torch.OutOfMemoryError", str(error), "Traceback ...\n", True)
        return maker.trace(failed=failed)
    raise AssertionError("the card was large enough")
