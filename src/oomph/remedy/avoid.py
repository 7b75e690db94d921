"""What not to do: the advice that is tempting for a cause, and why it does not help there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding
from oomph.diagnose.rules.oom301_fragmentation import LIKELY_RATIO
from oomph.evidence.model import Kind
from oomph.remedy.setup import setup_of
from oomph.units import format_bytes

_MOST = 3
_EMPTY_CACHE = (
    "Calling empty_cache(): PyTorch had released its cache and tried again before it raised the error. It "
    "helps only other users of the card."
)
_BATCH_OF_STATES = "Lowering the batch: weights, gradients and optimizer states do not depend on it."
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "static_state_too_big": (
        _BATCH_OF_STATES,
        "Adding up the memory of several cards: unless the model is sharded, every rank needs all of it.",
    ),
    "fragmentation": (
        (
            "Calling empty_cache() every step: the pieces that block the request are in use, and the next "
            "step asks the driver for all the rest again."
        ),
        "Taking a bigger card first: the same pattern of sizes fragments that one, too.",
    ),
    "other_process": (
        "Lowering the batch: it may even work, and then hides that a part of the card is gone.",
        "empty_cache(): it cannot free another process's memory.",
    ),
    "sibling_ranks_on_one_gpu": (
        "Killing the listed pids as leftovers: they are this job's own ranks.",
        "Lowering the batch: the ranks would still share one card while the others idle.",
    ),
    "colocated_engine": (
        "Tuning the trainer's batch: the engine took its share before the trainer asked for anything.",
    ),
    "logits_loss": (
        (
            "Only lowering the batch: the logits stay the largest tensor, and the next long sample brings "
            "the failure back."
        ),
    ),
    "optimizer_memory": (
        (
            "Lowering the batch: in the step the activations are gone, and the states have the size of the "
            "parameters."
        ),
    ),
    "resume_checkpoint": (
        "Lowering the batch: the run fitted before it was resumed; the checkpoint's copy is what is new.",
    ),
    "checkpoint_save_gather": (
        "Ignoring the message as a harmless warning: the checkpoint that it belongs to may be incomplete.",
        "Lowering the batch: activations are gone while a checkpoint is written.",
    ),
    "eval_generation": ("Lowering the training batch: training is not what failed.",),
    "cudagraph_compile_pool": (
        (
            "Setting expandable_segments: what a graph pool holds cannot be given to anything else, in "
            "whatever segments."
        ),
        "Reading `allocated` as live tensors: a graph's pool counts in it whether it is in use or not.",
    ),
    "growth_over_steps": (
        "Calling empty_cache() every step: what something still refers to cannot be freed.",
        "Lowering the batch: it only moves the failure to a later step.",
    ),
    "nccl_memory": (
        (
            "Debugging the network or raising the collective timeout: the other ranks' connection errors "
            "follow from this."
        ),
        "Setting NCCL_BUFFSIZE or NCCL_ALGO against PyTorch's fragmentation: neither touches its allocator.",
    ),
    "disguised_library_error": (
        "Reinstalling CUDA, cuDNN or the driver before the free memory at that moment is known.",
    ),
    "nvml_assert_masks_oom": (
        (
            "Reporting the assertion as a PyTorch bug, as its text asks: it only replaced the "
            "out-of-memory message."
        ),
    ),
    "cap_or_driver_limit": (
        "Lowering the batch: the card had room, so the limit stays where it is and wastes the rest.",
    ),
    "outside_grew": (
        "Lowering the batch: the job fitted before, and what grows outside goes on growing.",
        "Setting expandable_segments: what is missing is not PyTorch's.",
    ),
    "other_pool_or_stream": (
        "Calling empty_cache(): what was wholly free had been given back before the request failed.",
    ),
    "library_workspaces": (
        "Calling empty_cache(): a workspace is in use as long as its thread and stream may multiply matrices.",
    ),
    "pinned_host_memory": ("Taking a bigger GPU: the card was not asked for this memory.",),
    "managed_memory_limit": (
        "Lowering the batch: the states of the optimizer depend on the trained parameters alone.",
    ),
    "host_ram": (
        (
            "Following advice about GPU memory (batch, empty_cache, allocator settings): this is the "
            "host's memory."
        ),
        "Turning CPU offload on: it moves more into the memory that ran out.",
    ),
    "shm": (
        "Following advice about GPU memory: the GPU has no part in it.",
        "Only raising the container's memory limit: /dev/shm has a size of its own.",
    ),
    "unified_memory_limit": (
        (
            "Setting PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0, as the message suggests: without the limit the "
            "whole machine swaps or freezes."
        ),
    ),
    "not_an_oom": ("Following any advice about memory: nothing was short of it.",),
}
_CACHE_IS_EMPTY = frozenset(
    {
        "activations",
        "static_state_too_big",
        "logits_loss",
        "optimizer_memory",
        "resume_checkpoint",
        "eval_generation",
    }
)


def avoid(case: Case, finding: Finding) -> tuple[str, ...]:
    """At most three sentences, those that this log's numbers prove first."""
    found = list(dict.fromkeys(_all(case, finding)))
    return tuple(found[:_MOST])


def _all(case: Case, finding: Finding) -> Iterator[str]:
    if finding.cause == "activations" and setup_of(case).batch == 1:
        yield "Lowering the micro-batch: it is 1 already."
    yield from _CAUSES.get(finding.cause, ())
    if case.kind is not Kind.DEVICE_OOM:
        return
    if case.expandable_segments and finding.cause != "cudagraph_compile_pool":
        yield "Setting expandable_segments, as the message suggests: it is on already."
    elif finding.cause in _CACHE_IS_EMPTY:
        yield from _not_fragmented(case)
    if finding.cause in _CACHE_IS_EMPTY:
        yield _EMPTY_CACHE


def _not_fragmented(case: Case) -> Iterator[str]:
    """With its number: the whole cache would not have held the request."""
    cached, segment = case.ledger.cached_bytes, case.ledger.segment_bytes
    if cached is None or segment is None or cached >= segment:
        return
    if case.ledger.free_bytes is not None and cached + case.ledger.free_bytes >= segment:
        share = case.ledger.cached_ratio
        if share is None or share >= LIKELY_RATIO:
            return  # expandable segments could have put the two together
    yield (
        f"Changing allocator settings (expandable_segments, max_split_size_mb): all {format_bytes(cached)} "
        f"of cache together could not hold the {format_bytes(segment)} that were asked for."
    )
