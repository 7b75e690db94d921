"""What a plan's program was recorded with, where that is not what the job has: said, for people."""

from __future__ import annotations

from oomph.predict.compose.denoise_setup import is_denoiser
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.stacks import is_stacked

_HEADS = {
    "equal": "as many key-value heads as heads",
    "grouped": "several heads to a key-value head",
    "single": "one key-value head",
}


def stand_ins(setup: Setup) -> tuple[str, ...]:
    """Sentences for the plan's assumptions. One key-value head is a group of all heads: the same operators."""
    if is_denoiser(setup.job.model.family) or is_stacked(setup.job.model.family):
        return ()
    recorded, dims = setup.variant.heads, setup.dims
    if not recorded or "heads" not in dims:
        return ()
    heads, kv_heads = dims["heads"], dims.get("kv_heads", dims["heads"])
    asked = "equal" if heads == kv_heads else "single" if kv_heads == 1 else "grouped"
    if asked == recorded or {asked, recorded} == {"single", "grouped"}:
        return ()
    said = (
        f"{setup.file.framework}'s {setup.file.family} was recorded with {_HEADS[recorded]} and is played so; this "
        f"model has {_HEADS[asked]}, and its attention may hold a few percent more or less."
    )
    return (said,)
