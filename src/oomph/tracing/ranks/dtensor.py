"""DTensor: what it computes for itself at global shapes is nobody's memory."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from oomph.tracing.recorder.recorder import Recorder

#: Before torch 2.5 the package was private.
_PACKAGES = ("torch.distributed.tensor", "torch.distributed._tensor")


def install(recorder: Recorder) -> None:
    """Nothing is recorded while DTensor finds out shapes; its random numbers need no generator of a GPU."""
    for package in _PACKAGES:
        recorder.patches.when_imported(
            f"{package}._sharding_prop", lambda module: _propagation(recorder, module)
        )
        recorder.patches.when_imported(f"{package}._random", lambda module: _random(recorder, module))


def _propagation(recorder: Recorder, module: ModuleType) -> None:
    """`ShardingPropagator` runs each operator once on tensors of the global shape to learn the result's shape
    (torch/distributed/tensor/_sharding_prop.py): with fake tensors, or on `meta`."""

    def suspended(original: Any, *args: Any, **kwargs: Any) -> Any:
        with recorder.suspended():
            return original(*args, **kwargs)

    propagator = module.ShardingPropagator
    for name in [name for name in vars(propagator) if "propagate_tensor_meta" in name]:
        if callable(getattr(propagator, name)):
            recorder.patches.wrap(propagator, name, suspended)


def _random(recorder: Recorder, module: ModuleType) -> None:
    """A random operator on a DTensor reads the generator's 16 bytes, moves them to the device and back
    (torch/distributed/tensor/_random.py, OffsetBasedRNGTracker). The values do not matter here, the 16 bytes do."""
    tracker = getattr(module, "OffsetBasedRNGTracker", None)
    if tracker is None:
        return

    def taken() -> Any:
        import torch

        block = recorder.alloc(16, device=torch.cuda.current_device(), label="DTensor's random state")
        recorder.free(block)
        return torch.zeros(16, dtype=torch.uint8)

    def state(_original: Any, _self: Any) -> Any:
        return taken()

    @contextlib.contextmanager
    def region(_self: Any, *_args: Any, **_kwargs: Any) -> Iterator[None]:
        taken()
        yield

    def begin(_original: Any, self: Any, *_args: Any, **_kwargs: Any) -> None:
        import torch

        base = module._RNGStateTracker  # noqa: SLF001 - the class that a tracker is made of
        by_name = "device_type" in inspect.signature(base.__init__).parameters
        base.__init__(self, "cuda" if by_name else torch.device("cuda", torch.cuda.current_device()))
        if hasattr(self, "rng_states"):
            self.rng_states["parallel-rng"] = taken()

    if hasattr(tracker, "_get_device_state"):
        recorder.patches.wrap(tracker, "_get_device_state", state)
    recorder.patches.wrap(tracker, "__init__", begin)
    recorder.patches.set(tracker, "_distribute_region", region)
    recorder.patches.set(module, "_rng_tracker", None)
