"""Sizes of one unit under FSDP2, and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.shards import Group, piece, pieces


@dataclass(frozen=True)
class Fsdp2Options:
    """`reshard`: parameters are freed after forward (reshard_after_forward); `stays`: numbers of units that are
    not, all the same. `reshard_root`: the root's too, which PyTorch does only where it was asked for by name.
    `reduce_bytes`: bytes per element of MixedPrecisionPolicy's reduce_dtype (None: as gradients are made).
    `offload`: CPUOffloadPolicy. `no_sync`: the micro-batches of `accumulation` but the last are not reduced
    (set_requires_gradient_sync(False)). `loaded`: where the model is when it is wrapped: "meta" (only shards
    are ever made), "host" (moved unit by unit), "device" (all of it on the GPU).
    """

    reshard: bool = True
    reshard_root: bool = False
    stays: frozenset[int] = frozenset()
    reduce_bytes: float | None = None
    offload: bool = False
    accumulation: int = 1
    no_sync: bool = False
    loaded: Literal["meta", "host", "device"] = "host"


@dataclass(frozen=True)
class UnitSizes:
    """Bytes of one unit on this rank.

    shards: of each stored shard. copied: what is made to fill the all-gather buffer (shards cast to the type of
    computing, or brought from the host). buffer: the all-gather's output. gathered: each whole parameter.
    reduce_input, reduce_output: of all that trains, in the type of reduction; stored_output: the same shards in the
    type of the parameters, None where that is the same type. upcast: gradients are made in another type than they are
    reduced in. local: what this rank's optimizer steps.
    """

    shards: tuple[int, ...]
    copied: tuple[int, ...]
    buffer: int
    gathered: tuple[int, ...]
    reduce_input: int
    reduce_output: int
    stored_output: int | None
    upcast: bool
    reduce_bytes: float | None
    local: tuple[UnitParameter, ...]

    def reduced(self, grad: Grad) -> int:
        """Bytes of a whole gradient in the type of reduction."""
        return grad.bytes if self.reduce_bytes is None else int(grad.parameter.numel * self.reduce_bytes)


@dataclass(frozen=True)
class _Divided:
    """One parameter: elements of a full piece (padded), of this rank's piece, and bytes per element as stored and as
    gathered."""

    padded: int
    rows: int
    row: int
    stored: float
    gathered: float
    parameter: UnitParameter


def sizes_of(unit: Unit, group: Group, options: Fsdp2Options) -> UnitSizes:
    """Sizes of a unit. Each parameter is cut along its first dimension into pieces of ceil(rows / ranks) rows; a rank
    that has fewer is padded (_fsdp_param.py, _get_dim0_padded_size), so rank 0 holds the most."""
    divided = [_divide(each, group) for each in unit.parameters]
    reduce = options.reduce_bytes
    trains = [each for each in divided if each.parameter.trainable]
    padded = sum(each.padded for each in trains)
    made = {each.gathered for each in trains}
    reduced = reduce if reduce is not None else max(made, default=0.0)
    stored = max((each.stored for each in trains), default=0.0)
    return UnitSizes(
        shards=tuple(int(each.padded * each.stored) for each in divided),
        copied=_copied(divided, options),
        buffer=group.ranks * sum(int(each.padded * each.gathered) for each in divided),
        gathered=tuple(group.ranks * int(each.padded * each.gathered) for each in divided),
        reduce_input=int(group.ranks * padded * reduced),
        reduce_output=int(padded * reduced),
        stored_output=None if reduced == stored else int(padded * stored),
        upcast=bool(made) and made != {reduced},
        reduce_bytes=reduce,
        local=tuple(_local(each) for each in trains),
    )


def _divide(parameter: UnitParameter, group: Group) -> _Divided:
    if parameter.stored_bytes is not None:  # packed bytes: divided as they are stored, gathered as they are
        each = pieces(parameter.stored_bytes, group.ranks)
        return _Divided(each, piece(parameter.stored_bytes, group.ranks, group.rank), 1, 1, 1, parameter)
    rows = parameter.shape[0] if parameter.shape else parameter.numel
    row = parameter.numel // rows if rows else 0
    return _Divided(
        pieces(rows, group.ranks) * row,
        piece(rows, group.ranks, group.rank),
        row,
        parameter.weight_bytes,
        parameter.compute_bytes,
        parameter,
    )


def _copied(divided: list[_Divided], options: Fsdp2Options) -> tuple[int, ...]:
    """All casts are one flat tensor; from the host each shard comes on its own, and is cast there
    (_get_param_all_gather_inputs, FSDPParam.all_gather_inputs)."""
    if options.offload:
        # The shard as it was stored is freed when it has been cast; the largest of them is alive beside the casts.
        moved = [int(each.padded * each.gathered) for each in divided]
        largest = max(
            (int(each.padded * each.stored) for each in divided if each.stored != each.gathered), default=0
        )
        return (*moved, largest) if largest else tuple(moved)
    cast = sum(int(each.padded * each.gathered) for each in divided if each.stored != each.gathered)
    return (cast,) if cast else ()


def _local(each: _Divided) -> UnitParameter:
    whole = each.parameter
    shape = (each.rows, *whole.shape[1:]) if whole.shape else ()
    return UnitParameter(
        whole.name,
        each.rows * each.row,
        True,
        whole.weight_bytes,
        whole.compute_bytes,
        whole.weight_bytes,
        shape=shape,
    )
