"""The JSON document of `oomph plan`, version 1, as types. The published schema is generated from them.

A version only grows: fields are added with a value for old readers, never renamed, removed or given another meaning.
Sizes are bytes. Field docs become the schema's descriptions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSION = "1"

Phase = Literal["init", "load", "forward", "backward", "optimizer", "eval", "generate", "save", "unknown"]
Category = Literal[
    "parameters",
    "gradients",
    "optimizer state",
    "activations",
    "temporaries",
    "communication",
    "workspace",
    "unknown",
]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base: no fields but those that are named."""


class Term(Strict):
    """Bytes that are alive at a peak, and what for; `formula` names the page of docs/terms that explains them."""

    name: str
    category: Category
    bytes: int
    formula: str


class PhasePeak(Strict):
    """The most of a phase. `low_bytes` to `high_bytes` is the interval of `allocated_bytes`. What is reserved is null
    where nothing was played through the allocator. `terms` sum up to `allocated_bytes`."""

    phase: Phase
    allocated_bytes: int
    low_bytes: int
    high_bytes: int
    reserved_bytes: int | None
    reserved_low_bytes: int | None
    reserved_high_bytes: int | None
    where: Annotated[str, Meta(description="The place of the peak within the phase.")]
    terms: list[Term]


class OutsidePart(Strict):
    """One part of what is needed outside PyTorch's allocator."""

    name: str
    low_bytes: int
    high_bytes: int


class Outside(Strict):
    """What PyTorch's allocator does not see: CUDA context, NCCL, other libraries."""

    low_bytes: int
    high_bytes: int
    parts: list[OutsidePart]


class Replay(Strict):
    """The timeline played through PyTorch's allocator, with the capacity, under several orders of addresses."""

    orders_played: int
    orders_failed: int
    fits: bool | None
    fails_in: Phase | None


class Rank(Strict):
    """Ranks that are alike; `ranks` says which ("all 8 ranks")."""

    ranks: str
    first_rank: int
    peak_phase: Annotated[
        Phase, Meta(description="The phase that allocates the most, its upper end counted.")
    ]
    low_bytes: Annotated[int, Meta(description="What that phase needs of PyTorch's capacity, at the least.")]
    high_bytes: Annotated[int, Meta(description="The most in any phase, what is reserved included.")]
    phases: list[PhasePeak]
    end_allocated_bytes: Annotated[int, Meta(description="What stays allocated between steps.")]
    outside: Outside
    replay: Replay | None


class HostPart(Strict):
    """What RAM of a machine is needed for."""

    name: str
    bytes: int


class Host(Strict):
    """RAM that one machine needs, and has (null: not known)."""

    load_bytes: int
    train_bytes: int
    available_bytes: int | None
    parts: list[HostPart]


class Report(Strict):
    """The answer of `oomph plan --format json`."""

    schema_version: Literal["1"]
    oomph_version: str
    exit_code: Annotated[
        int,
        Meta(
            description="0: it fits, or no capacity is known. 1: it does not fit, or may not. 2: it cannot be "
            "predicted."
        ),
    ]
    summary: str
    fits: Annotated[
        bool | None,
        Meta(
            description="true only where the upper end fits; false where the lower end does not; null in between."
        ),
    ]
    fails_in: Annotated[Phase | None, Meta(description="The first phase that does not fit, or may not.")]
    capacity_bytes: Annotated[
        int | None, Meta(description="What one process can have of a GPU, less the CUDA context.")
    ]
    room_bytes: Annotated[
        int | None,
        Meta(description="The same, less the most that NCCL and other libraries take: what has to do."),
    ]
    parameters: int
    trainable: int
    job: Annotated[
        dict[str, Any], Meta(description="The job as it was understood, by the fields of docs/jobs.md.")
    ]
    shown: Annotated[int | None, Meta(description="Place in `ranks` of the one to look at first.")]
    ranks: list[Rank]
    host: Host | None
    assumptions: Annotated[list[str], Meta(description="What stood in for what nobody said.")]
    unsupported: Annotated[
        list[str], Meta(description="What cannot be predicted: where there is any, `ranks` is empty.")
    ]
    notes: list[str]
    counters: Annotated[dict[str, int], Meta(description="Other numbers of the prediction, by name.")]
