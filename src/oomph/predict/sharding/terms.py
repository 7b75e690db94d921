"""Which page of docs/terms explains a block that a strategy allocates, by the block's name."""

from __future__ import annotations

_NAMES = {
    "sharding-whole": ("parameters", "frozen parameters"),
    "sharding-shards": (
        "parameter shards",
        "parameters before sharding",
        "flat parameters",
        "gradient shards",
        "shards from the host",
    ),
    "sharding-gathered": ("gathered parameters", "cast shards", "all-gather buffer"),
    "sharding-reduce": (
        "reduce-scatter buffer",
        "flat gradient",
        "gradients of frozen parameters",
        "whole gradients, accumulated",
    ),
    "sharding-ddp-buckets": ("DDP buckets", "broadcast of parameters"),
    "sharding-zero-buckets": ("gradient bucket", "reduced bucket", "gradient on its way to the host"),
    "sharding-zero-masters": (
        "fp32 masters",
        "partition of parameters",
        "partition cast to fp32",
        "gradients of masters",
        "parameters before flattening",
    ),
    "sharding-zero-step": ("gradient partition", "gradients in fp32", "gradient norm in float64"),
    "sharding-zero3": ("parameter partitions", "persistent parameters", "gradient partitions"),
}
#: Name of a block -> page.
PAGES = {name: page for page, names in _NAMES.items() for name in names}


def page_of(name: str) -> str:
    """The name of the page in docs/terms, without its ending; "" for what no strategy allocates."""
    return PAGES.get(name, "")
