"""Plays a strategy over a stack of wide linear layers, and traces PyTorch's own code over the same stack."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding.base import Grad, Sharding, Unit, UnitParameter
from oomph.predict.sink import Sink
from tests.tracing.ranks.running import Rank, traced

#: The program and the played stack: a first and a last layer in the root, and blocks of two layers between.
WIDTH, HIDDEN, BLOCKS, WORLD = 1024, 1536, 5, 4
PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


@dataclass(frozen=True)
class Stack:
    """Sizes per element, and what of a block trains."""

    weight: float = 4.0
    compute: float = 4.0
    frozen: bool = False
    mixed: bool = False
    width: int = WIDTH
    hidden: int = HIDDEN
    blocks: int = BLOCKS

    def layer(self, name: str, rows: int, columns: int, trains: bool = True) -> UnitParameter:
        return UnitParameter(
            name, rows * columns, trains, self.weight, self.compute, self.weight, shape=(rows, columns)
        )

    @property
    def units(self) -> list[Unit]:
        root = Unit(
            "root", (self.layer("first", self.width, self.width), self.layer("last", self.width, self.width))
        )
        block = Unit(
            "block",
            (
                self.layer("up", self.hidden, self.width, not self.frozen),
                self.layer("down", self.width, self.hidden, not (self.frozen or self.mixed)),
            ),
        )
        return [root, *[block] * self.blocks]


MODEL = """
import contextlib, os
import torch.distributed as dist
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
if "RANK" in os.environ:
    dist.init_process_group("nccl")
WIDTH, HIDDEN, BLOCKS = {width}, {hidden}, {blocks}
def layer(columns, rows):
    return torch.nn.Linear(columns, rows, bias=False, device=PLACE)
def block():
    return torch.nn.Sequential(layer(WIDTH, HIDDEN), layer(HIDDEN, WIDTH))
def stack():
    model = torch.nn.Sequential(layer(WIDTH, WIDTH), *[block() for _ in range(BLOCKS)], layer(WIDTH, WIDTH))
    if {frozen}:
        for each in model[1:-1].parameters():
            each.requires_grad_(False)
    if {mixed}:
        for each in model[1:-1]:
            each[1].requires_grad_(False)
    return model
def train(model, steps=2, accumulation=1, no_sync=contextlib.nullcontext, rows=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(steps):
        for micro in range(accumulation):
            with no_sync() if micro < accumulation - 1 else contextlib.nullcontext():
                x = torch.randn(rows, WIDTH, device="cuda")
                model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def traced_peaks(
    program: str, stack: Stack, place: str = "cuda", world: int = WORLD, rank: int = 0
) -> dict[Phase, int]:
    """Peaks of allocated bytes, per phase, of PyTorch's own code."""
    sizes = MODEL.format(
        width=stack.width, hidden=stack.hidden, blocks=stack.blocks, frozen=stack.frozen, mixed=stack.mixed
    ).replace("PLACE", repr(place))
    return peaks_of(traced(sizes + textwrap.dedent(program), world=world, rank=rank), rank)


def peaks_of(rank: Rank, device: int = 0) -> dict[Phase, int]:
    """The highest level after an allocation of each phase."""
    seen = rank.devices[str(device)]
    blocks = iter(seen["blocks"])
    level = 0
    peaks: dict[Phase, int] = {}
    for kind, size in seen["events"]:
        if kind == 0:
            phase = Phase(next(blocks)["phase"])
            level += -(-size // 512) * 512
            peaks[phase] = max(peaks.get(phase, 0), level)
        elif kind == 1:
            level -= -(-size // 512) * 512
    return peaks


def played(
    make: Callable[[Sequence[Unit], Sink], Sharding],
    stack: Stack,
    steps: int = 2,
    accumulation: int = 1,
    units: Sequence[Unit] | None = None,
) -> PeakSink:
    """The same steps, played. Activations are left out: a batch of one row."""
    sink = PeakSink()
    units = stack.units if units is None else units
    strategy = make(units, sink)
    sink.phase(Phase.LOAD)
    strategy.setup()
    for _ in range(steps):
        for _ in range(accumulation):
            sink.phase(Phase.FORWARD)
            forward(strategy, units)
            sink.phase(Phase.BACKWARD)
            backward(strategy, sink, units)
        sink.phase(Phase.OPTIMIZER)
        assert strategy.optimizer_parameters() is not None
        strategy.zero_grad()
    return sink


def forward(strategy: Sharding, units: Sequence[Unit]) -> None:
    strategy.forward_begin()
    for unit in range(1, len(units)):
        strategy.forward_before(unit)
        strategy.forward_after(unit)
    strategy.forward_end()


def backward(strategy: Sharding, sink: Sink, units: Sequence[Unit]) -> None:
    strategy.backward_begin()
    root = units[0].parameters
    found = _grads(strategy, sink, root[1:])
    for unit in range(len(units) - 1, 0, -1):
        strategy.backward_before(unit)
        strategy.backward_after(unit, _grads(strategy, sink, units[unit].parameters[::-1]))
    strategy.backward_after(0, [*found, *_grads(strategy, sink, root[:1])])
    strategy.backward_end()


def _grads(strategy: Sharding, sink: Sink, parameters: Sequence[UnitParameter]) -> list[Grad]:
    found = []
    for each in parameters:
        if not each.trainable:
            continue
        size = int(each.numel * each.compute_bytes)
        handle = sink.alloc(size, Category.GRADIENTS, "gradients")
        if strategy.holds_gradients():
            sink.free(handle)
        else:
            found.append(Grad(handle, each, size))
    return found


def apart(sink: PeakSink, peaks: dict[Phase, int]) -> dict[Phase, float]:
    """By how much of the traced peak a played one is above it, per phase."""
    return {phase: sink.peaks()[phase].bytes / peaks[phase] - 1 for phase in PHASES if phase in peaks}


def assert_close(sink: PeakSink, peaks: dict[Phase, int], *phases: Phase, within: float = 0.01) -> None:
    """Fails where a phase is further apart than that."""
    found = apart(sink, peaks)
    wanted = phases or tuple(found)
    assert wanted
    far = {str(phase): round(found[phase], 4) for phase in wanted if abs(found[phase]) > within}
    assert not far, (
        f"{far}: {[(str(phase), peak.bytes) for phase, peak in sink.peaks().items()]}, traced {peaks}"
    )
