from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from oomph.probe.cpu import CpuDevice


@pytest.fixture
def card() -> Iterator[Callable[..., CpuDevice]]:
    """Makes devices that are closed when the test is over."""
    made: list[CpuDevice] = []

    def make(capacity_bytes: int | None = None) -> CpuDevice:
        gc.collect()
        made.append(CpuDevice(capacity_bytes))
        return made[-1]

    yield make
    for one in reversed(made):
        one.close()
