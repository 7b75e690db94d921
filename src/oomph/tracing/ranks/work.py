"""The handle of a collective that has nothing to wait for."""

from __future__ import annotations

from typing import Any


class DoneWork:
    """Stands for torch's `Work`. Until it is waited for it keeps the tensors that are on their way, as NCCL's handle
    does (ProcessGroupNCCL.cpp, `stashed_for_allocator_safety_`)."""

    def __init__(self, result: Any, kept: Any = ()) -> None:
        self._result = result
        self._kept = kept

    def wait(self, timeout: Any = None) -> bool:  # noqa: ARG002 - torch's signature
        """Nothing is on its way any more."""
        self._kept = ()
        return True

    def synchronize(self) -> None:
        """The same for the stream."""
        self._kept = ()

    def block_current_stream(self) -> None:
        """The same without the host."""
        self._kept = ()

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def source_rank(self) -> int:
        return 0

    def result(self) -> list[Any]:
        return list(self._result)

    def get_future(self) -> Any:
        """A future that is done; its value is the list of the tensors, as NCCL gives it."""
        import torch

        future: Any = torch.futures.Future()
        future.set_result(list(self._result))
        return future

    def get_future_result(self) -> Any:
        return self.get_future()

    def boxed(self) -> DoneWork:
        return self
