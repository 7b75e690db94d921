"""The largest batch, sequence or model that still fits: by bisection on the prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.job.families import architecture, dimensions
from oomph.job.model import Dimension, Job
from oomph.remedy.room import Planner, Predictor, planned, quickly, room_of, upper

What = Literal["batch", "seq", "params"]
#: Keys of config.json under which families write the number of layers.
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
#: Tokens between two lengths that are told apart.
GRAIN = 128
_MOST = {"batch": 1 << 16, "seq": (1 << 24) // GRAIN, "params": 1 << 12}


@dataclass(frozen=True)
class Largest:
    """The largest that surely fits. `value`: samples per rank and forward, tokens per sample, or parameters (of the
    same width with more or fewer layers). 0: not even the smallest fits; None: no capacity is known. `peak_bytes`:
    highest allocated bytes there; `next_bytes`: one step further, which does not fit (None: there is none). `job`: the
    job with it."""

    what: What
    value: int | None
    job: Job | None = None
    peak_bytes: int | None = None
    next_bytes: int | None = None
    room_bytes: int | None = None
    layers: int | None = None


def largest(
    job: Job,
    what: What,
    headroom: float = 0.05,
    *,
    predictor: Predictor = quickly,
    planner: Planner = planned,
) -> Largest:
    """The largest micro-batch, sequence length (in steps of 128 tokens) or number of parameters (by layers) that fits
    with a share of `headroom` left free.

    Raises UsageError for a job that contradicts itself or is not modelled, and for a model whose layers cannot be
    counted.
    """
    base = planner(job, False)
    room = room_of(base, headroom)
    if base.unsupported:
        raise UsageError(f"unsupported: {base.unsupported[0]}")
    if room is None:
        return Largest(what, None)
    make = _maker(job, what)

    def need(units: int) -> int | None:
        changed = make(units)
        if changed is None:
            return None
        try:
            return predictor(changed)
        except UsageError:
            if units == 1:
                raise
            return None  # longer than the model's positions, say

    units, below, above = _bisect(need, lambda size: upper(job, size) <= room.bytes, _MOST[what])
    if units == 0:
        return Largest(what, 0, None, None, above, room.bytes)
    found = make(units)
    if found is None:  # pragma: no cover - `need` made it
        return Largest(what, 0, None, None, above, room.bytes)
    value = {"batch": units, "seq": units * GRAIN, "params": 0}[what]
    if what == "params":
        value = architecture(found.model).total
    return Largest(what, value, found, below, above, room.bytes, units if what == "params" else None)


def _bisect(
    need: Callable[[int], int | None], fits: Callable[[int], bool], most: int
) -> tuple[int, int | None, int | None]:
    """The largest whole number from 1 to `most` for which `need` is there and fits, what it needs, and what the next
    one needs. 0 where 1 does not."""
    known: dict[int, int | None] = {}

    def good(units: int) -> bool:
        known[units] = need(units)
        size = known[units]
        return size is not None and fits(size)

    low, high = 0, 1
    while high <= most and good(high):
        low, high = high, high * 2
    if low == 0:
        return 0, None, known[1]
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            low = middle
        else:
            high = middle
    return low, known[low], known.get(low + 1)


def _maker(job: Job, what: What) -> Callable[[int], Job | None]:
    if what == "batch":
        return lambda units: replace(job, batch=replace(job.batch, micro=units))
    if what == "seq":
        if job.batch.sequence is None:
            raise UsageError("The job has no text, so there is no sequence to lengthen.")
        most = architecture(job.model).learned_positions

        def longer(units: int) -> Job | None:
            length = units * GRAIN
            if most is not None and length > most:
                return None
            return replace(job, batch=replace(job.batch, sequence=length))

        return longer
    key = next((each for each in _LAYERS if job.model.get(each) is not None), "")
    if not key:
        raise UsageError("The model's configuration does not say how many layers it has.")
    dimensions(job.model)

    def deeper(units: int) -> Job:
        config = tuple(
            Dimension(key=each.key, value=units) if each.key == key else _shortened(each, units)
            for each in job.model.config
        )
        return replace(job, model=replace(job.model, config=config))

    return deeper


def _shortened(each: Dimension, layers: int) -> Dimension:
    """A list with a word per layer (`layer_types`) is repeated or cut to the new number of layers."""
    if each.key != "layer_types" or not isinstance(each.value, tuple) or not each.value:
        return each
    times = -(-layers // len(each.value))
    return Dimension(key=each.key, value=(each.value * times)[:layers])
