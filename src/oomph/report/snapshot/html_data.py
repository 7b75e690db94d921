"""What the page's script draws: curves, blocks, segments and stacks of one device, as lists of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.curves import curves, differences, important, states_of
from oomph.diagnose.snapshot.model import DeviceReport, How
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.stacks import Frame
from oomph.phases import Phase
from oomph.report.snapshot.html_segments import segment_data
from oomph.report.snapshot.html_stacks import StackTree
from oomph.report.snapshot.words import moment_title

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Steps and retries that are marked; no screen has room for more.
_MOST_MARKS = 5_000

_WORDS = {
    "categories": [str(category) for category in CATEGORIES],
    "phases": [str(phase) for phase in Phase],
    "how": [str(how) for how in How],
    "certainty": [str(certainty) for certainty in Certainty],
}


@dataclass(frozen=True)
class Drawing:
    """One device's data, but for its stacks, whose names may have to be redacted first."""

    index: int
    tree: StackTree
    values: dict[str, object]

    def data(self, shown: Callable[[Frame], Frame]) -> dict[str, object]:
        """All of it. `shown` gives a frame as it may be shown."""
        return {**self.values, "stacks": self.tree.data(shown)}


def drawing(analysis: Analysis, device: DeviceReport) -> Drawing:
    """The data of one device. Stacks of what was alive come first into the tree, which has a limit."""
    tree = StackTree(analysis.timeline.stacks)
    alive = _alive(analysis, tree)
    segments = _segments(analysis, device, tree)
    values: dict[str, object] = {
        "index": device.index,
        "events": device.events,
        "words": _WORDS,
        "moment": {"position": device.moment.position, "kind": moment_title(device.moment)},
        "capacity": _available(device),
        "alive": alive,
        "segments": segments,
        "steps": [] if device.steps is None else list(device.steps.first_positions[:_MOST_MARKS]),
        "retries": [retry.position for retry in device.retries[:_MOST_MARKS]],
    }
    if device.events:
        values["curves"] = _curves(analysis)
        values["blocks"] = _blocks(analysis, tree)
    return Drawing(device.index, tree, values)


def _available(device: DeviceReport) -> int | None:
    """What PyTorch could have had in all, where that is known."""
    if device.failure is not None and device.failure.available_bytes is not None:
        return device.failure.available_bytes
    return None if device.what_if is None else device.what_if.capacity_bytes


def _curves(analysis: Analysis) -> dict[str, object]:
    timeline = analysis.timeline
    found = curves(
        analysis.lifetimes,
        analysis.block_category,
        states_of(analysis.start.reserved_bytes, analysis.reserved_bytes),
        analysis.event_phase,
        timeline.time_us,
        analysis.moment.position,
    )
    return {
        "states": found.states,
        "starts": differences(found.starts),
        "peak": (found.peak - found.starts).tolist(),
        "categories": [differences(row) for row in found.by_category],
        "lowest": differences(found.lowest),
        "reserved": differences(found.reserved),
        "phase": found.phase.tolist(),
        "time": None if found.time_us is None else differences(found.time_us),
    }


def _blocks(analysis: Analysis, tree: StackTree) -> dict[str, object]:
    """The blocks that are drawn one by one, in the order of birth. `life` is in events, -1 for no end."""
    blocks = analysis.lifetimes
    rows = important(blocks)
    born, freed = blocks.born[rows], blocks.freed[rows]
    life = freed - born
    life[freed >= blocks.events] = -1
    return {
        "born": differences(born),
        "life": life.tolist(),
        "bytes": blocks.size_bytes[rows].tolist(),
        "requested": blocks.requested_bytes[rows].tolist(),
        "category": analysis.block_category[rows].tolist(),
        "how": analysis.block_how[rows].tolist(),
        "certainty": analysis.block_certainty[rows].tolist(),
        "node": tree.nodes(analysis.block_stack[rows].tolist()),
    }


def _alive(analysis: Analysis, tree: StackTree) -> dict[str, object]:
    """What was alive at the moment by stack and category, the largest first."""
    rows = analysis.alive
    sums: dict[tuple[int, int], list[int]] = {}
    for stack, category, size in zip(
        analysis.block_stack[rows].tolist(),
        analysis.block_category[rows].tolist(),
        analysis.alive_bytes.tolist(),
        strict=True,
    ):
        entry = sums.setdefault((stack, category), [0, 0])
        entry[0] += size
        entry[1] += 1
    order = sorted(sums, key=lambda key: -sums[key][0])
    return {
        "node": tree.nodes([stack for stack, _ in order]),
        "category": [category for _, category in order],
        "bytes": [sums[key][0] for key in order],
        "blocks": [sums[key][1] for key in order],
    }


def _segments(analysis: Analysis, device: DeviceReport, tree: StackTree) -> dict[str, object]:
    blocks, position = analysis.lifetimes, analysis.moment.position
    rows = (blocks.born <= position) & (blocks.done > position)
    by_address = dict(
        zip(
            blocks.address[rows].tolist(),
            zip(analysis.block_category[rows].tolist(), analysis.block_stack[rows].tolist(), strict=True),
            strict=True,
        )
    )
    unknown = CATEGORIES.index(Category.UNKNOWN)
    data, stacks = segment_data(analysis.layout, by_address, device, unknown)
    pieces = data["pieces"]
    assert isinstance(pieces, dict)
    pieces["node"] = tree.nodes(stacks)
    return data
