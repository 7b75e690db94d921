"""The longest batch that a run recorded, from the shapes of what its model's forward was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oomph.evidence.run.data import RunData
from oomph.phases import Phase

#: What transformers and most scripts call token ids; others are taken by their shape.
_TOKENS = ("input_ids", "tokens", "inputs", "x", "idx", "arg0")
_IMAGES = ("pixel_values", "images", "image", "x", "arg0")


@dataclass(frozen=True)
class Longest:
    """A batch of so many samples of so many tokens, or of images with that side in pixels."""

    rank: int
    step: int
    micro: int
    sequence: int | None = None
    image_size: int | None = None


def longest(data: RunData) -> Longest | None:
    """The batch with the most tokens (or pixels) that any rank trained on; None where no shape was recorded."""
    found: list[Longest] = []
    for rank in data.ranks.values():
        shapes: list[tuple[int, Mapping[str, tuple[int, ...]]]] = []
        shapes += [(each.step, each.batch) for each in rank.steps]
        shapes += [(each.step, each.batch) for each in rank.phases if each.phase is Phase.FORWARD]
        # Of very many records only some are kept: the batch of each phase's peak is.
        shapes += [
            (its.step, its.batch)
            for summary in rank.summaries.values()
            if summary.phase in (Phase.FORWARD, Phase.BACKWARD)
            for its in (summary.first, summary.later)
            if its is not None
        ]
        found += _of(rank.rank, shapes)
    return max(
        found, key=lambda each: each.micro * (each.sequence or (each.image_size or 1) ** 2), default=None
    )


def _of(rank: int, shapes: Iterable[tuple[int, Mapping[str, tuple[int, ...]]]]) -> Iterable[Longest]:
    for step, batch in shapes:
        tokens = _named(batch, _TOKENS, 2)
        if tokens is not None:
            yield Longest(rank, step, tokens[0], sequence=tokens[1])
            continue
        pixels = _named(batch, _IMAGES, 4)
        if pixels is not None:
            yield Longest(rank, step, pixels[0], image_size=max(pixels[2:]))


def _named(
    batch: Mapping[str, tuple[int, ...]], names: Iterable[str], dimensions: int
) -> tuple[int, ...] | None:
    """The first of these names with a shape of so many dimensions, none of them 0."""
    for name in names:
        shape = batch.get(name)
        if shape is not None and len(shape) == dimensions and all(size > 0 for size in shape):
            return shape
    return None
