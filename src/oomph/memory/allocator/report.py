"""The counters under the keys of `torch.cuda.memory_stats()`.

Source: memory_stats in torch/cuda/memory.py, which flattens and sorts what the allocator counts.
"""

from __future__ import annotations

from oomph.memory.allocator import sizes
from oomph.memory.allocator.arena import Arena
from oomph.memory.allocator.stats import Counter


def report(arena: Arena) -> dict[str, int]:
    """Keys and values in sorted order; keys that the PyTorch version of the settings does not have are left out."""
    counts = arena.counts
    named: list[tuple[str, Counter]] = [
        ("oversize_allocations", counts.oversize_allocations),
        ("oversize_segments", counts.oversize_segments),
    ]
    for pool, part in (("all", counts.all), ("large_pool", counts.large), ("small_pool", counts.small)):
        named += [(f"{name}.{pool}", counter) for name, counter in part.named()]
    result = {
        "num_alloc_retries": counts.retries,
        "num_ooms": counts.ooms,
        "max_split_size": -1 if arena.max_split == sizes.UNLIMITED_BYTES else arena.max_split,
    }
    if arena.settings.torch >= (2, 6):
        result["num_sync_all_streams"] = counts.syncs
        result["num_device_alloc"] = counts.device_allocs
        result["num_device_free"] = counts.device_frees
    if arena.settings.torch >= (2, 13):
        result["num_oom_rejections"] = counts.rejections
        for identity, private in arena.private.items():
            stem = f"reserved_bytes_by_private_pools.{identity[0]}_{identity[1]}"
            named += [
                (f"{stem}.all", private.reserved),
                (f"{stem}.large_pool", private.large.reserved),
                (f"{stem}.small_pool", private.small.reserved),
            ]
    for name, counter in named:
        for what, value in counter.report().items():
            result[f"{name}.{what}"] = value
    return dict(sorted(result.items()))
