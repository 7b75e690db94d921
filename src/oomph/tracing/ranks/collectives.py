"""Collectives on tensors: their values, and what NCCL's process group allocates or holds on to beside the arguments.

Source: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp. Lists of equal tensors are gathered into, or reduced from,
one flat tensor (`newLikeFlat`) that lives until the work is done. An asynchronous collective keeps its tensors until
it is waited for. Before torch 2.8 collectives ran on streams of NCCL's own and marked their tensors with
`record_stream`, unless TORCH_NCCL_AVOID_RECORD_STREAMS was set.
"""

# ruff: noqa: ARG002, A002 - the signatures are torch's
from __future__ import annotations

import os
from typing import Any

from oomph.memory.categories import CATEGORIES, Category
from oomph.tracing.ranks.everywhere import everywhere
from oomph.tracing.ranks.work import DoneWork
from oomph.tracing.recorder.recorder import Recorder

_COMMUNICATION = CATEGORIES.index(Category.COMMUNICATION)
#: A stream that no script gets: NCCL's own, one for all groups of a device.
NCCL_STREAM = 1_000_000
#: Values are copied for tensors of at most so many elements: counters and lengths, not weights.
_VALUES = 1 << 12


def install(recorder: Recorder) -> None:
    """Replaces the functions of `torch.distributed` that send tensors, and names what functional ones allocate."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    collectives = _Collectives(recorder, c10d)
    for name in _NAMES:
        everywhere(recorder, c10d, name, getattr(collectives, name))
    recorder.on_alloc.append(_categories)
    recorder.patches.when_imported(
        "torch.distributed._functional_collectives", lambda module: _asynchronous(recorder, module)
    )


def _categories(block: Any, _tensor: Any, operator: Any) -> None:
    name = getattr(operator, "name", "")
    if name.startswith(("_c10d_functional", "c10d_functional", "c10d.", "fsdp.")):
        block.category = _COMMUNICATION


def _asynchronous(recorder: Recorder, module: Any) -> None:
    """Since torch 2.13 an operator wraps what is on its way, and its fake kernel makes a copy that is none."""
    if not hasattr(module, "_wrap_tensor_autograd"):
        return

    def wrap(_original: Any, tensor: Any) -> Any:
        if tensor.requires_grad:
            return module.wait_tensor(tensor)
        return module.AsyncCollectiveTensor(tensor)

    recorder.patches.wrap(module, "_maybe_wrap_tensor", wrap)


_NAMES = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "_all_gather_base",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "_reduce_scatter_base",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "scatter",
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
    "all_reduce_coalesced",
    "all_gather_coalesced",
)


def _tensors(*values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found.extend(_tensors(*value))
        elif value is not None and hasattr(value, "untyped_storage"):
            found.append(value)
    return found


class _Collectives:
    """Each method stands for the function of its name, after the original function. No tensor moves."""

    def __init__(self, recorder: Recorder, c10d: Any) -> None:
        self.recorder = recorder
        self.c10d = c10d

    # -- what all of them do ----------------------------------------------------------------------------------------

    def _done(self, async_op: bool, result: Any, kept: Any = ()) -> Any:
        tensors = [one for one in _tensors(result, kept) if one.is_cuda]
        own_stream = self.recorder.settings.torch < (2, 8)
        if own_stream and os.environ.get("TORCH_NCCL_AVOID_RECORD_STREAMS", "0") != "1":
            for tensor in tensors:
                self.recorder.record_stream(tensor, NCCL_STREAM)
        return DoneWork(_tensors(result), tensors) if async_op else None

    def _absent(self, group: Any) -> bool:
        return bool(self.c10d._rank_not_in_group(group))  # noqa: SLF001 - what the originals ask

    def _size(self, group: Any) -> int:
        return int(self.c10d.get_world_size(group))

    def _copy(self, target: Any, source: Any) -> None:
        """The value of a small tensor, or of one on the CPU."""
        if target.numel() == source.numel() and (not target.is_cuda or target.numel() <= _VALUES):
            import torch

            with torch.no_grad():
                target.copy_(source.reshape(target.shape))

    def _flat(self, tensors: Any) -> None:
        """The flat tensor that a list of equal tensors goes through, until the collective is done."""
        cuda = [one for one in _tensors(tensors) if one.is_cuda]
        size = sum(one.numel() * one.element_size() for one in cuda)
        if len(cuda) < 2 or not size or any(one.shape != cuda[0].shape for one in cuda):
            return
        block = self.recorder.alloc(
            size,
            device=cuda[0].device.index or 0,
            label="flat tensor of a collective",
            category=Category.COMMUNICATION,
        )
        self.recorder.free(block)

    def _sum(self, tensor: Any, op: Any, group: Any) -> None:
        """Every rank holds the same: a sum is that many times as much."""
        reduce_op = self.c10d.ReduceOp
        if tensor.is_cuda and tensor.numel() > _VALUES:
            return
        import torch

        with torch.no_grad():
            if op == reduce_op.SUM and tensor.dtype is not torch.bool:
                tensor.mul_(self._size(group))
            elif op == reduce_op.PRODUCT:
                tensor.pow_(self._size(group))

    # -- one by one -------------------------------------------------------------------------------------------------

    def all_reduce(
        self, _original: Any, tensor: Any, op: Any = None, group: Any = None, async_op: bool = False
    ) -> Any:
        if self._absent(group):
            return None
        self._sum(tensor, self.c10d.ReduceOp.SUM if op is None else op, group)
        return self._done(async_op, [tensor])

    def reduce(
        self,
        _original: Any,
        tensor: Any,
        dst: Any = None,
        op: Any = None,
        group: Any = None,
        async_op: bool = False,
        group_dst: Any = None,
    ) -> Any:
        return self.all_reduce(None, tensor, op, group, async_op)

    def broadcast(
        self,
        _original: Any,
        tensor: Any,
        src: Any = None,
        group: Any = None,
        async_op: bool = False,
        group_src: Any = None,
    ) -> Any:
        return None if self._absent(group) else self._done(async_op, [tensor])

    def all_gather(
        self, _original: Any, tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False
    ) -> Any:
        if self._absent(group):
            return None
        self._flat(tensor_list)
        for target in tensor_list:
            self._copy(target, tensor)
        return self._done(async_op, tensor_list, tensor)

    def all_gather_into_tensor(
        self, _original: Any, output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
    ) -> Any:
        if self._absent(group):
            return None
        if output_tensor.numel() <= _VALUES or not output_tensor.is_cuda:
            for part in output_tensor.view(-1).chunk(self._size(group)):
                self._copy(part, input_tensor)
        return self._done(async_op, [output_tensor], input_tensor)

    all_gather_single = all_gather_into_tensor
    _all_gather_base = all_gather_into_tensor

    def reduce_scatter(
        self,
        _original: Any,
        output: Any,
        input_list: Any,
        op: Any = None,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        if self._absent(group):
            return None
        self._flat(input_list)
        self._copy(output, input_list[self.c10d.get_rank(group)])
        self._sum(output, self.c10d.ReduceOp.SUM if op is None else op, group)
        return self._done(async_op, [output], input_list)

    def reduce_scatter_tensor(
        self,
        _original: Any,
        output: Any,
        input: Any,
        op: Any = None,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        if self._absent(group):
            return None
        if output.numel() <= _VALUES or not output.is_cuda:
            self._copy(output, input.view(-1).chunk(self._size(group))[self.c10d.get_rank(group)])
            self._sum(output, self.c10d.ReduceOp.SUM if op is None else op, group)
        return self._done(async_op, [output], input)

    reduce_scatter_single = reduce_scatter_tensor
    _reduce_scatter_base = reduce_scatter_tensor

    def all_to_all(
        self,
        _original: Any,
        output_tensor_list: Any,
        input_tensor_list: Any,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        if self._absent(group):
            return None
        for target, source in zip(output_tensor_list, input_tensor_list, strict=False):
            self._copy(target, source)
        return self._done(async_op, output_tensor_list, input_tensor_list)

    def all_to_all_single(
        self,
        _original: Any,
        output: Any,
        input: Any,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        if self._absent(group):
            return None
        self._copy(output, input)
        return self._done(async_op, [output], input)

    def gather(
        self,
        _original: Any,
        tensor: Any,
        gather_list: Any = None,
        dst: Any = None,
        group: Any = None,
        async_op: bool = False,
        group_dst: Any = None,
    ) -> Any:
        if self._absent(group):
            return None
        for target in gather_list or ():
            self._copy(target, tensor)
        return self._done(async_op, gather_list or [tensor], tensor)

    def scatter(
        self,
        _original: Any,
        tensor: Any,
        scatter_list: Any = None,
        src: Any = None,
        group: Any = None,
        async_op: bool = False,
        group_src: Any = None,
    ) -> Any:
        if self._absent(group):
            return None
        if scatter_list:
            self._copy(tensor, scatter_list[self.c10d.get_rank(group)])
        return self._done(async_op, [tensor], scatter_list)

    def isend(self, _original: Any, tensor: Any, *_args: Any, **_kwargs: Any) -> Any:
        return self._done(True, [tensor])

    def irecv(self, _original: Any, tensor: Any, *_args: Any, **_kwargs: Any) -> Any:
        return self._done(True, [tensor])

    def send(self, _original: Any, tensor: Any, *_args: Any, **_kwargs: Any) -> None:
        self._done(False, [tensor])

    def recv(self, _original: Any, tensor: Any, src: Any = None, *_args: Any, **_kwargs: Any) -> int:
        self._done(False, [tensor])
        return 0 if src is None else int(src)

    def batch_isend_irecv(self, _original: Any, p2p_op_list: Any) -> list[Any]:
        return [self._done(True, [one.tensor]) for one in p2p_op_list]

    def all_reduce_coalesced(
        self, _original: Any, tensors: Any, op: Any = None, group: Any = None, async_op: bool = False
    ) -> Any:
        if self._absent(group):
            return None
        for tensor in tensors:
            self._sum(tensor, self.c10d.ReduceOp.SUM if op is None else op, group)
        return self._done(async_op, list(tensors))

    def all_gather_coalesced(
        self,
        _original: Any,
        output_tensor_lists: Any,
        input_tensor_list: Any,
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        if self._absent(group):
            return None
        return self._done(async_op, output_tensor_lists, input_tensor_list)
