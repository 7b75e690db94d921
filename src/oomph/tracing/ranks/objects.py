"""Python objects and barriers between ranks: the other ranks hold what this one holds.

Source of the sizes: torch/distributed/distributed_c10d.py (`all_gather_object` and its sisters): pickled bytes go
through tensors on the group's device.
"""

# ruff: noqa: ARG002 - the signatures are torch's
from __future__ import annotations

import pickle
from typing import Any

from oomph.memory.categories import Category
from oomph.tracing.ranks.everywhere import everywhere
from oomph.tracing.ranks.mail import Mail
from oomph.tracing.recorder.recorder import Recorder

_UNKNOWN = (
    "Objects that other ranks would have sent (broadcast, scattered, received) "
    "are what this rank had there before."
)


def install(recorder: Recorder) -> None:
    """Replaces what sends objects, and what waits for the others."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    objects = _Objects(recorder, c10d)
    recorder.patches.when_undone(objects.mail.deliver)
    for name in (
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
        "send_object_list",
        "recv_object_list",
        "barrier",
        "monitored_barrier",
    ):
        everywhere(recorder, c10d, name, getattr(objects, name))


class _Objects:
    """Each method stands for the function of its name, after the original function."""

    def __init__(self, recorder: Recorder, c10d: Any) -> None:
        self.recorder = recorder
        self.c10d = c10d
        self.mail = Mail()

    def _outside(self, group: Any) -> bool:
        return bool(self.c10d._rank_not_in_group(group))  # noqa: SLF001 - what the originals ask

    def _on_device(self, group: Any) -> bool:
        """Whether the group sends objects through tensors on the GPU: a group of NCCL alone does."""
        kinds = {device.type for device in (group or self.c10d._get_default_group())._device_types}  # noqa: SLF001
        return kinds == {"cuda"}

    def _through(self, group: Any, obj: Any, copies: int) -> None:
        """Memory for the pickled object, and for what comes from `copies` ranks."""
        if not self._on_device(group):
            return
        import torch

        try:
            size = len(pickle.dumps(obj))
        except Exception:  # noqa: BLE001 - an object that cannot be pickled here would fail in earnest; its size is small
            size = 4096
        device = torch.cuda.current_device()
        taken = [
            self.recorder.alloc(bytes_, device=device, label="object", category=Category.COMMUNICATION)
            for bytes_ in (size, 8, 8 * copies, size * copies)
            if bytes_
        ]
        for block in taken:
            self.recorder.free(block)

    def _rank(self, group: Any) -> int:
        return int(self.c10d.get_rank(group))

    def _is_root(self, group: Any, root: Any, group_root: Any) -> bool:
        if group_root is not None:
            return self._rank(group) == group_root
        return int(self.c10d.get_rank()) == (0 if root is None else root)

    def all_gather_object(self, _original: Any, object_list: Any, obj: Any, group: Any = None) -> None:
        if self._outside(group):
            return
        count = self.c10d.get_world_size(group)
        self._through(group, obj, count)
        for place in range(count):
            object_list[place] = obj

    def gather_object(
        self,
        _original: Any,
        obj: Any,
        object_gather_list: Any = None,
        dst: Any = None,
        group: Any = None,
        group_dst: Any = None,
    ) -> None:
        if self._outside(group):
            return
        count = self.c10d.get_world_size(group)
        root = self._is_root(group, dst, group_dst)
        self._through(group, obj, count if root else 0)
        if root and object_gather_list is not None:
            for place in range(count):
                object_gather_list[place] = obj

    def broadcast_object_list(
        self,
        _original: Any,
        object_list: Any,
        src: Any = None,
        group: Any = None,
        device: Any = None,
        group_src: Any = None,
    ) -> None:
        if self._outside(group):
            return
        self._through(group, object_list, 0)
        kind = f"broadcast-{self.c10d._get_process_group_name(group or self.c10d._get_default_group())}"  # noqa: SLF001
        if self._is_root(group, src, group_src):
            self.mail.post(kind, list(object_list))
            return
        found = self.mail.take(kind)
        if found:
            object_list[:] = found[0]
        else:
            self.recorder.assume(_UNKNOWN)

    def scatter_object_list(
        self,
        _original: Any,
        scatter_object_output_list: Any,
        scatter_object_input_list: Any = None,
        src: Any = None,
        group: Any = None,
        group_src: Any = None,
    ) -> None:
        if self._outside(group):
            return
        self._through(group, scatter_object_input_list, 0)
        if scatter_object_input_list:
            scatter_object_output_list[0] = scatter_object_input_list[self._rank(group)]
        if not self._is_root(group, src, group_src):
            self.recorder.assume(_UNKNOWN)

    def _way(self, group: Any, peer: Any, group_peer: Any, *, sends: bool) -> str:
        """The name of what goes from one rank to another."""
        if group_peer is not None:
            peer = self.c10d.get_global_rank(group or self.c10d._get_default_group(), group_peer)  # noqa: SLF001
        own, other = self.c10d.get_rank(), 0 if peer is None else int(peer)
        return f"{own}-to-{other}" if sends else f"{other}-to-{own}"

    def send_object_list(
        self,
        _original: Any,
        object_list: Any,
        dst: Any = None,
        group: Any = None,
        *_args: Any,
        group_dst: Any = None,
        **_kwargs: Any,
    ) -> None:
        self.mail.post(self._way(group, dst, group_dst, sends=True), list(object_list))

    def recv_object_list(
        self,
        _original: Any,
        object_list: Any,
        src: Any = None,
        group: Any = None,
        *_args: Any,
        group_src: Any = None,
        **_kwargs: Any,
    ) -> int:
        found = self.mail.take(self._way(group, src, group_src, sends=False))
        if found:
            object_list[:] = found[0]
        else:
            self.recorder.assume(_UNKNOWN)
        return 0 if src is None else int(src)

    def barrier(
        self, _original: Any, group: Any = None, async_op: bool = False, *_args: Any, **_kwargs: Any
    ) -> Any:
        """NCCL's barrier is an all-reduce of one float, and the host waits for it (ProcessGroupNCCL.cpp, `barrier`)."""
        from oomph.tracing.ranks.work import DoneWork

        if self._outside(group):
            return None
        if self._on_device(group):
            import torch

            device = torch.cuda.current_device()
            self.recorder.free(
                self.recorder.alloc(4, device=device, label="barrier", category=Category.COMMUNICATION)
            )
            if not async_op:
                self.recorder.synchronize(device)
        return DoneWork(()) if async_op else None

    def monitored_barrier(self, _original: Any, *_args: Any, **_kwargs: Any) -> None:
        return None
