"""What the sinks need of a template, worked out once for each template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from oomph.memory.categories import CATEGORIES, Category
from oomph.predict.sink import Template

Label = tuple[Category, str]

_NUMBER = {category: number for number, category in enumerate(CATEGORIES)}
#: Under which name a template has its digest.
_NAME = "_digest"
_Columns = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Digest:
    """`survivors`: the template's own blocks that it leaves. `gone`: handed blocks that it frees. `peak_parts`: bytes
    of its own blocks that are alive at its peak, by label; `peak_gone`: handed blocks that are freed by then;
    `net_parts`: bytes of what it leaves, by label. `template`: its events, sizes and labels."""

    survivors: tuple[int, ...]
    gone: tuple[int, ...]
    peak_parts: dict[Label, int]
    peak_gone: tuple[int, ...]
    net_parts: dict[Label, int]
    template: tuple[Sequence[int], Sequence[int], Sequence[Label]]

    @cached_property
    def columns(self) -> _Columns:
        """The events as columns (block, whether it is a free, bytes, number of the category), without blocks of 0
        bytes: for a replay, which a search does not make."""
        return _columns(*self.template)


def digest(template: Template) -> Digest:
    """The template's digest, kept as long as the template. Raises ValueError for a template that contradicts
    itself: a block freed twice, or a `peak` or `net` that its events do not give."""
    known: Digest | None = template.__dict__.get(_NAME)
    if known is None:
        known = template.__dict__[_NAME] = _worked_out(template)
    return known


def _worked_out(template: Template) -> Digest:
    top, peak, net = _levels(template)
    if (peak, net) != (template.peak, template.net):
        raise ValueError(
            f"The template says that its peak is {template.peak} and its net change {template.net}; "
            f"its events give {peak} and {net}."
        )
    own, handed = range(template.first_own, len(template.sizes)), range(template.first_own)
    at_peak, at_end = _alive(template, top), _alive(template, len(template.events))
    survivors = tuple(block for block in own if block in at_end)
    return Digest(
        survivors,
        tuple(block for block in handed if block not in at_end),
        _by_label(template, (block for block in own if block in at_peak)),
        tuple(block for block in handed if block not in at_peak),
        _by_label(template, survivors),
        (template.events, template.sizes, template.labels),
    )


def _levels(template: Template) -> tuple[int, int, int]:
    """After how many events the template's level is highest for the first time, that level, and the last one."""
    top = level = peak = 0
    for position, event in enumerate(template.events):
        level += template.sizes[event] if event >= 0 else -template.sizes[~event]
        if level > peak:
            top, peak = position + 1, level
    return top, peak, level


def _alive(template: Template, events: int) -> set[int]:
    """The blocks that are alive after the first `events` events."""
    alive = set(range(template.first_own))
    for event in template.events[:events]:
        if event >= 0:
            if event in alive:
                raise ValueError(f"The template allocates block {event} twice.")
            alive.add(event)
        elif ~event not in alive:
            raise ValueError(f"The template frees block {~event}, which is not alive.")
        else:
            alive.remove(~event)
    return alive


def _by_label(template: Template, blocks: Iterable[int]) -> dict[Label, int]:
    parts: Counter[Label] = Counter()
    for block in blocks:
        parts[template.labels[block]] += template.sizes[block]
    return dict(parts)


def _columns(events: Sequence[int], sizes: Sequence[int], labels: Sequence[Label]) -> _Columns:
    events = [event for event in events if sizes[event if event >= 0 else ~event]]
    numbers = tuple(event if event >= 0 else ~event for event in events)
    return (
        numbers,
        tuple(int(event < 0) for event in events),
        tuple(sizes[number] for number in numbers),
        tuple(_NUMBER[labels[number][0]] for number in numbers),
    )
