"""Settings of PyTorch's allocator: what it reserves on top of what is allocated."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind

_KNOWN = {
    "expandable_segments": "expandable segments avoid fragmentation; without them free memory may lie in pieces "
    "that are too "
    "small",
    "max_split_size_mb": "max_split_size_mb keeps large blocks whole, which can help or grow what is reserved",
    "garbage_collection_threshold": "garbage_collection_threshold gives cached memory back earlier",
    "roundup_power2_divisions": "roundup_power2_divisions rounds requests up: more is allocated than was asked for",
    "backend": "cudaMallocAsync keeps memory in the driver's pool, and PyTorch's counters mean less",
    "per_process_memory_fraction": "per_process_memory_fraction caps what PyTorch may have",
}


class Allocator(Kind):
    """PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF (its name since PyTorch 2.9) and the like."""

    name = "allocator"
    order = 20
    keys = (
        r"environment\.PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF",
        r"environment\.PYTORCH_NO_(?:CUDA_|HIP_)?MEMORY_CACHING",
        r"arguments\.(?:.+\.)?(?:torch_empty_cache_steps|empty_cache\w*|alloc_conf)",
    )

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Which of its settings differ, and what each does."""
        del situation
        if "empty_cache" in change.key:
            return Judged(
                "emptying the cache changes what is reserved between steps, not what is allocated",
                Suspicion.POSSIBLE,
                parts=("peak.reserved",),
                weight=2.0,
            )
        before, after = settings(change.before), settings(change.after)
        differing = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        said = [_KNOWN[name] for name in differing if name in _KNOWN]
        effect = (
            "; ".join(said)
            or "the allocator's settings change how much it reserves on top of what is allocated"
        )
        return Judged(
            f"{effect}. Allocated bytes stay, reserved ones change",
            Suspicion.LIKELY,
            direction=_direction(before, after),
            parts=("peak.reserved",),
            sources=(
                "pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
            ),
            weight=6.0,
        )


def settings(value: object) -> dict[str, str]:
    """`a:1,b:[x,y]` as a table."""
    result: dict[str, str] = {}
    if value is None:
        return result
    name = ""
    for part in str(value).split(","):
        key, colon, text = part.partition(":")
        if colon and not name.startswith("["):
            result[key.strip()] = text.strip()
    return result


def _direction(before: dict[str, str], after: dict[str, str]) -> int:
    on = [held.get("expandable_segments", "False").lower() == "true" for held in (before, after)]
    return int(on[0]) - int(on[1])
