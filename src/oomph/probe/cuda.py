"""`Device` for CUDA (and ROCm, which torch calls by the same name): torch.cuda's counters, and what the driver says."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from oomph.probe.model import Counters
from oomph.probe.peaks import install

#: What torch raises where a device or an allocator does not answer. RuntimeError includes its own errors.
_TROUBLE = (RuntimeError, AssertionError, AttributeError, KeyError, TypeError, ValueError)
_NOT_YET = "CUDA is not initialized in this process yet"
_ROCM = "what is outside the allocator is not read on AMD GPUs"
_ALSO = "this process has memory on {} too, which is not counted here"
_NO_OVERLAY = (
    "peaks are reset at each phase, and this PyTorch keeps them where oomph does not know: what the script itself "
    "reads of torch.cuda.max_memory_allocated() counts from the beginning of the phase"
)
_OTHER_ALLOCATOR = "the allocator is {}, of which PyTorch's counters say little"


class CudaDevice:
    """A CUDA device of this process. CUDA is never initialized by reading: before the script does that, everything is
    zero and `Counters.missing` says so.

    Without `index` it is the first device that has memory reserved, looked for from the current one on.
    """

    kind = "cuda"

    def __init__(self, index: int | None = None) -> None:
        import torch

        self._torch: Any = torch
        self._cuda: Any = torch.cuda
        self._fixed = index
        self._closed = False
        self._overlay = install()
        self._limits: list[str] = []
        if self._overlay is None:
            self._limits.append(_NO_OVERLAY)
        else:
            self._overlay.peaks.add(self)
            self._limits += self._overlay.limits
        with suppress(*_TROUBLE):
            backend = str(self._cuda.get_allocator_backend())
            if backend != "native":
                self._limits.append(_OTHER_ALLOCATOR.format(backend))

    @property
    def limits(self) -> tuple[str, ...]:
        """What does not hold of these numbers, a sentence each."""
        return tuple(self._limits)

    # -- which one --------------------------------------------------------------------------------------------------

    @property
    def index(self) -> int:
        """The device as the process numbers it."""
        if self._fixed is not None:
            return self._fixed
        try:
            if not self._cuda.is_initialized():
                local = os.environ.get("LOCAL_RANK", "")
                count = int(self._cuda.device_count())
                return int(local) if local.isdigit() and int(local) < count else 0
            return self._look()
        except _TROUBLE:
            return 0

    def _look(self) -> int:
        current = int(self._cuda.current_device())
        others = [one for one in range(int(self._cuda.device_count())) if one != current]
        for one in (current, *others):
            if self._raw(one)["reserved_bytes"]["all"]["current"] > 0:
                self._fixed = one
                return one
        return current

    @property
    def name(self) -> str:
        """As CUDA calls it; before CUDA is initialized, as the driver does, if that can be asked."""
        try:
            if not self._cuda.is_initialized():
                from oomph.probe.shares import name

                return name(self.index)
            return str(self._cuda.get_device_name(self.index))
        except _TROUBLE:
            return ""

    @property
    def uuid(self) -> str:
        """The driver's number of it, without "GPU-"; "" where torch does not tell."""
        if not self._cuda.is_initialized():
            return ""
        try:
            return str(self._cuda.get_device_properties(self.index).uuid)
        except _TROUBLE:
            return ""

    # -- reading ----------------------------------------------------------------------------------------------------

    def _raw(self, index: int) -> dict[Any, Any]:
        if self._overlay is not None:
            return self._overlay.peaks.stats(self, index)
        return dict(self._cuda.memory_stats_as_nested_dict(index))

    def begin(self) -> None:
        if not self._cuda.is_initialized():
            return
        with suppress(*_TROUBLE):
            if self._overlay is not None:
                self._overlay.peaks.reset(self, self.index)
            else:
                self._cuda.reset_peak_memory_stats(self.index)

    def read(self) -> Counters:
        if not self._cuda.is_initialized():
            return Counters(missing=_NOT_YET)
        try:
            return _counters(self._raw(self.index))
        except _TROUBLE as error:
            return Counters(missing=f"torch.cuda.memory_stats failed: {_first_line(error)}")

    def whole(self) -> Counters:
        """As `read`, and what the driver says of the card and of who is on it."""
        now = self.read()
        if not self._cuda.is_initialized():
            return now
        missing = [now.missing] if now.missing else []
        free = total = None
        try:
            free, total = (int(size) for size in self._cuda.mem_get_info(self.index))
        except _TROUBLE as error:
            missing.append(f"torch.cuda.mem_get_info failed: {_first_line(error)}")
        others = self._others()
        if others:
            missing.append(_ALSO.format(", ".join(f"cuda:{one}" for one in others)))
        from oomph.probe.shares import Shares, shares

        rocm = getattr(getattr(self._torch, "version", None), "hip", None)
        found = Shares(why=_ROCM) if rocm else shares(self.uuid, self.index, now.reserved_bytes)
        if found.why:
            missing.append(found.why)
        return msgspec.structs.replace(
            now,
            free_bytes=free,
            total_bytes=total,
            outside_bytes=found.outside_bytes,
            other_processes_bytes=found.others_bytes,
            missing="; ".join(missing),
        )

    def _others(self) -> list[int]:
        """The other devices on which this process has memory (a pipeline, device_map="auto", a stray tensor)."""
        try:
            count, own = int(self._cuda.device_count()), self.index
            return [one for one in range(count) if one != own and self._cuda.memory_reserved(one) > 0]
        except _TROUBLE:
            return []

    def stats(self) -> dict[str, Any]:
        """As the script reads them: peaks since its own last reset."""
        try:
            return dict(self._cuda.memory_stats(self.index)) if self._cuda.is_initialized() else {}
        except _TROUBLE:
            return {}

    def summary(self) -> str:
        try:
            return str(self._cuda.memory_summary(self.index)) if self._cuda.is_initialized() else ""
        except _TROUBLE:
            return ""

    # -- history ----------------------------------------------------------------------------------------------------

    def record_history(self, max_entries: int) -> str:
        """Where the script records itself already, its recording is left as it is."""
        memory = self._cuda.memory
        enabled = getattr(self._torch._C, "_cuda_isHistoryEnabled", None)  # noqa: SLF001
        try:
            if self._cuda.is_initialized() and enabled is not None and enabled():
                return ""
            self._later(
                lambda: memory._record_memory_history(  # noqa: SLF001 - PyTorch has no other name for it
                    "all", context="alloc", stacks="python", max_entries=max_entries
                )
            )
        except _TROUBLE as error:
            return f"PyTorch keeps no memory history: {_first_line(error)}"
        return ""

    def dump_snapshot(self, path: Path) -> str:
        if not self._cuda.is_initialized():
            return f"no memory snapshot: {_NOT_YET}"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            self._cuda.memory._dump_snapshot(str(temporary))  # noqa: SLF001
            temporary.replace(path)
        except (OSError, MemoryError, *_TROUBLE) as error:
            return f"no memory snapshot: {_first_line(error)}"
        finally:
            with suppress(OSError):
                temporary.unlink()
        return ""

    def on_out_of_memory(self, observer: Callable[[int, int, int, int], None]) -> None:
        """PyTorch cannot let go of an observer; after `close` it is not called any more. What it raises is dropped:
        the exception that the script gets is PyTorch's."""

        def told(device: int, request: int, total: int, free: int) -> None:
            if not self._closed:
                with suppress(Exception):
                    observer(device, request, total, free)

        self._later(lambda: self._torch._C._cuda_attach_out_of_memory_observer(told))  # noqa: SLF001

    def _later(self, function: Callable[[], Any]) -> None:
        """Now, or once the script has initialized CUDA, which no error of ours may keep it from."""
        if self._cuda.is_initialized():
            function()
            return

        def quietly() -> None:
            with suppress(Exception):
                function()

        self._cuda._lazy_call(quietly)  # noqa: SLF001

    def synchronize(self) -> None:
        if self._cuda.is_initialized():
            with suppress(*_TROUBLE):
                self._cuda.synchronize(self.index)

    def close(self) -> None:
        """What the script reads of peaks stays right: torch's functions are its own again as soon as they say the
        same, which is at the script's next reset."""
        self._closed = True
        if self._overlay is not None:
            self._overlay.peaks.drop(self)
            self._overlay.leave()


def _counters(stats: dict[Any, Any]) -> Counters:
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    return Counters(
        allocated_bytes=allocated["current"],
        reserved_bytes=reserved["current"],
        active_bytes=stats["active_bytes"]["all"]["current"],
        # Not in PyTorch before 2.0.
        requested_bytes=stats.get("requested_bytes", {}).get("all", {}).get("current", 0),
        inactive_split_bytes=stats["inactive_split_bytes"]["all"]["current"],
        peak_allocated_bytes=allocated["peak"],
        peak_reserved_bytes=reserved["peak"],
        retries=stats["num_alloc_retries"],
        ooms=stats["num_ooms"],
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
