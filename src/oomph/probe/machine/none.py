"""A host of which no GPU can be read; its main memory can."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.probe.host import host
from oomph.probe.model import Gpu, Host


class NoMachine:
    """`why` is a sentence."""

    def __init__(self, why: str) -> None:
        self._why = why

    def gpus(self, ours: Sequence[int] = ()) -> tuple[Gpu, ...]:  # noqa: ARG002 - as every machine
        return ()

    def host(self, pids: Sequence[int] = ()) -> Host:
        return host(pids)

    def source(self) -> str:
        return "none"

    def why(self) -> str:
        return self._why
