"""Flat parameters of FSDP1: sizes, and the settings that they follow from.

Source: torch/distributed/fsdp/_flat_param.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.shards import Group, pieces

#: _get_aligned_numel: with original parameters each begins at a multiple of 16 bytes of the gathered flat parameter.
ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Fsdp1Options:
    """`strategy`: full_shard (also within the shard group of HYBRID_SHARD), shard_grad_op or no_shard.
    `reduce_bytes`: per element, of MixedPrecision's reduce_dtype (None: as gradients are made).
    `use_orig_params`: True puts frozen and trained parameters of a unit into one flat parameter, whose gradient
    is whole; otherwise, and where `apart`, they are taken to be wrapped apart (without original parameters
    PyTorch demands it; PEFT's wrap policy does it). `prefetch`: when the unit before is gathered in backward.
    `offload`: CPUOffload(offload_params=True). `no_sync`: micro-batches of `accumulation` but the last run in
    no_sync(). `nested`: units are under reentrant checkpoints that call the wrapped unit (not checkpoints
    within it): its hooks run in the recomputed forward only, so nothing is gathered ahead in backward.
    `loaded`: "device": the whole model was on the GPU when it was wrapped; "host", "meta": it comes unit by
    unit."""

    strategy: Literal["full_shard", "shard_grad_op", "no_shard"] = "full_shard"
    reduce_bytes: float | None = None
    use_orig_params: bool = False
    apart: bool = False
    prefetch: Literal["pre", "post", "none"] = "pre"
    forward_prefetch: bool = False
    offload: bool = False
    accumulation: int = 1
    no_sync: bool = False
    nested: bool = False
    loaded: Literal["meta", "host", "device"] = "host"


@dataclass(frozen=True)
class Flat:
    """One flat parameter on this rank, in bytes: each parameter as loaded, the whole flat one, its shard; the
    shard cast to the type of computing (0: it needs no cast); the gathered flat parameter (padded), the same in
    full precision; its whole gradient as autograd makes it, in the type of reduction (0: the same) and padded
    there (0: it needs no padding); the shard of it that comes out, and that in the type of the parameters (0:
    the same); the whole gradient in the type of reduction again, once it is in the type of the parameters (0:
    the same)."""

    trains: bool
    trained_names: frozenset[str]
    loaded: tuple[int, ...]
    whole: int
    shard: int
    cast: int
    gathered: int
    full_precision: int
    gradient: int
    zeros: tuple[int, ...]
    reduced: int
    padded: int
    output: int
    stored_output: int
    reduced_again: int
    local: tuple[UnitParameter, ...]


def flats_of(unit: Unit, group: Group, options: Fsdp1Options) -> tuple[Flat, ...]:
    """The flat parameters of a unit: one for each type of parameters, and one for what is frozen beside what trains
    unless they are flattened together."""
    kinds: dict[tuple[bool, float], list[UnitParameter]] = {}
    together = options.use_orig_params and not options.apart
    for each in unit.parameters:
        item = each.weight_bytes if each.stored_bytes is None else 0.0  # a flat parameter has one type
        kinds.setdefault((together or each.trainable, item), []).append(each)
    return tuple(_flat(kind, group, options) for kind in kinds.values())


def _flat(parameters: list[UnitParameter], group: Group, options: Fsdp1Options) -> Flat:
    ranks = 1 if options.strategy == "no_shard" else group.ranks
    dense = [each for each in parameters if each.stored_bytes is None]
    packed = sum(each.resident_bytes for each in parameters if each.stored_bytes is not None)
    weight = max((each.weight_bytes for each in dense), default=1.0)
    compute = max((each.compute_bytes for each in dense), default=1.0)
    starts, numel = _placed(dense, compute, ranks if options.use_orig_params else 0)
    shard = pieces(numel, ranks)
    casts = compute != weight
    reduce = compute if options.reduce_bytes is None else options.reduce_bytes
    trains = any(each.trainable for each in parameters)
    whole = int(numel * weight) + packed
    return Flat(
        trains=trains,
        trained_names=frozenset(each.name for each in parameters if each.trainable),
        loaded=tuple(each.resident_bytes for each in parameters),
        whole=whole,
        shard=int(shard * weight) + pieces(packed, ranks),
        cast=int(shard * compute) + pieces(packed, ranks) if casts else 0,
        gathered=ranks * (int(shard * compute) + pieces(packed, ranks)),
        full_precision=ranks * int(shard * weight) if casts else 0,
        gradient=int(numel * compute) if trains else 0,
        zeros=tuple(int(each.numel * compute) for each in dense if trains and not each.trainable),
        reduced=0 if reduce == compute else int(numel * reduce),
        padded=int(ranks * shard * reduce) if numel % ranks else 0,
        output=int(shard * reduce),
        stored_output=0 if reduce == weight else int(shard * weight),
        reduced_again=0 if reduce == weight else int(numel * reduce),
        local=_local(dense, starts, shard, group, options) if trains else (),
    )


def _placed(dense: Sequence[UnitParameter], compute: float, ranks: int) -> tuple[list[int], int]:
    """Where each parameter begins, and the elements of all; with `ranks` (0: packed without gaps) aligned, and
    padded so that ranks divide it (_init_flat_param_and_metadata)."""
    aligned = max(1, int(ALIGNMENT_BYTES // compute)) if ranks else 1
    starts, total = [], 0
    for each in dense:
        total = pieces(total, aligned) * aligned
        starts.append(total)
        total += each.numel
    return starts, pieces(total, ranks) * ranks if ranks else total


def _local(
    dense: Sequence[UnitParameter], starts: Sequence[int], shard: int, group: Group, options: Fsdp1Options
) -> tuple[UnitParameter, ...]:
    """What the optimizer steps: the flat shard, or with original parameters what of each lies in it."""
    if options.offload:
        return ()
    if not options.use_orig_params:
        first = dense[0]
        return (
            UnitParameter(
                "flat parameter", shard, True, first.weight_bytes, first.compute_bytes, first.weight_bytes
            ),
        )
    low = 0 if options.strategy == "no_shard" else group.rank * shard
    found = []
    for each, start in zip(dense, starts, strict=True):
        count = min(start + each.numel, low + shard) - max(start, low)
        if each.trainable and count > 0:
            item = each.weight_bytes
            found.append(UnitParameter(each.name, count, True, item, each.compute_bytes, item))
    return tuple(found)
