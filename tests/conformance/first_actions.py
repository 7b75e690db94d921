"""Which first action is of the right kind for a cause.

From the "first fix" column of the taxonomy of failure classes. A value is a tuple of action-code prefixes: "shard"
accepts "shard-optimizer" and "shard-parameters". Only what the column names is in here; an action that is merely
useful is not.
"""

from __future__ import annotations

FIRST_ACTIONS: dict[str, tuple[str, ...]] = {
    # smaller micro-batch plus accumulation, checkpointing, shorter sequences
    "activations": ("micro-batch", "checkpointing", "shorter-sequence"),
    # lower dtype, LoRA, quantise, shard; check that the flag took effect
    "static_state_too_big": ("lower-dtype", "lora", "quantize", "shard", "meta-load"),
    # expandable segments, fixed or bucketed shapes, warm up on the largest shape
    "fragmentation": ("expandable-segments", "fixed-shapes", "bucket", "warm-up"),
    # find and stop it, retry unchanged
    "other_process": ("stop-process",),
    # set the device from local_rank before any CUDA call
    "sibling_ranks_on_one_gpu": ("set-device",),
    # lower engine utilisation, sleep/wake, empty the cache before wake_up
    "colocated_engine": ("engine-",),
    # fused or chunked linear cross-entropy, drop unused logits
    "logits_loss": ("chunked-loss", "fused-loss", "drop-logits"),
    # shard, offload or 8-bit states; foreach=False or fused=True for the temporaries
    "optimizer_memory": (
        "shard",
        "offload-optimizer",
        "eight-bit-optimizer",
        "8bit-optimizer",
        "foreach-off",
        "fused-optimizer",
    ),
    # map_location="cpu", load, delete the checkpoint object
    "resume_checkpoint": ("map-location-cpu", "drop-checkpoint-dict"),
    # CPU offload plus rank 0 only, or a sharded checkpoint
    "checkpoint_save_gather": ("cpu-offload-save", "sharded-save", "sharded-checkpoint"),
    # no_grad, smaller eval batch, eval_accumulation_steps, move outputs to CPU
    "eval_generation": ("no-grad-eval", "eval-", "smaller-eval", "outputs-to-cpu"),
    # compile without cudagraphs, fewer shapes, smaller batch
    "cudagraph_compile_pool": ("compile-without-graphs", "fewer-shapes", "micro-batch"),
    # stop keeping tensors (item/detach), memory snapshot
    "growth_over_steps": ("detach-kept", "collect"),
    # headroom outside the torch pool
    "nccl_memory": ("nccl-headroom",),
    # check free memory at that moment, make headroom, rule out bad labels
    "disguised_library_error": ("check-free-memory",),
    # treat as OOM; map the line to a version
    "nvml_assert_masks_oom": ("treat-as-oom",),
    # remove the cap or fix driver/VM
    "cap_or_driver_limit": ("remove-cap", "driver-limit", "split-tensor"),
    # pin_memory false, raise the locked-memory limit
    "pinned_host_memory": ("unpin", "locked-memory"),
    # non-paged optimizer
    "managed_memory_limit": ("non-paged-optimizer",),
    # more RAM, fewer workers, no CPU offload, stream data
    "host_ram": ("host-ram",),
    # bigger /dev/shm, fewer workers
    "shm": ("shm-size",),
    # smaller profile, keep the watermark
    "unified_memory_limit": ("smaller-profile",),
    # fix the named thing
    "not_an_oom": ("not-memory",),
}


def acceptable(cause: str, action: str) -> bool:
    """True when `action` (a code) is of a kind that the taxonomy names as the first fix of `cause`."""
    return bool(action) and action.startswith(FIRST_ACTIONS.get(cause, ()))
