"""Operators that a CUDA build has kernels for, and a CPU build only as composites of others.

The dispatcher takes an operator apart into other operators, before any mode sees it, where its backend has no kernel of
its own and there is a CompositeImplicitAutograd one (c10/core/impl, OperatorEntry::computeDispatchTableEntryWithDebug).
A CPU build has no kernels of CUDA, so there the backward of SiLU would be six operators, each with a result of its own,
and RMSNorm eight. Which operators: those that have both kernels in the CUDA builds 2.4.1, 2.6.0 and 2.14.1; there are
no others.
"""

from __future__ import annotations

from typing import Any

_BOTH = ("_fused_rms_norm", "mish_backward", "silu_backward")
_held: list[Any] = []


def register() -> None:
    """Gives a CPU build a kernel for CUDA where the composite must not be taken: fake tensors never reach it."""
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001
    for name in _BOTH:
        full = f"aten::{name}"
        if (
            not hasattr(torch.ops.aten, name)
            or has(full, "CUDA")
            or not has(full, "CompositeImplicitAutograd")
        ):
            continue
        if not _held:
            _held.append(torch.library.Library("aten", "IMPL"))
        _held[0].impl(name, _never, "CUDA")


def _never(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("no GPU is there to run this on")
