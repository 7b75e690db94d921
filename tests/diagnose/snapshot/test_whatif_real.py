"""What if: the answer on real snapshots, where there are some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oomph.diagnose.snapshot.model import WhatIf
from oomph.diagnose.snapshot.whatif import what_if
from oomph.evidence.snapshot import allocator_settings, read
from oomph.units import GIB

_BESIDE = Path(__file__).resolve().parents[4] / "shared" / "snapshots"
_NAMED = os.environ.get("OOMPH_CONFORMANCE")
_FOLDERS = [Path(_NAMED) / "snapshots", Path(_NAMED).parent / "snapshots"] if _NAMED else [_BESIDE]
FOLDER = next((folder for folder in _FOLDERS if folder.is_dir()), None)
OOM, RETRY = "three-gpus-expandable-oom.pickle", "octree-inference-retries.pickle"


def real(name: str, device: int, *asked: str, capacity: int | None = None) -> WhatIf:
    assert FOLDER is not None
    snapshot = read(FOLDER / name)
    settings = allocator_settings(snapshot)
    return what_if(snapshot.devices[device], settings, asked=asked, capacity_bytes=capacity)


if FOLDER is not None and (FOLDER / OOM).is_file():

    def test_the_real_failure_is_reproduced_from_the_trace():
        """Reserved 84,202,749,952 + free 95,682,560 bytes; the OOM is event 421."""
        answer = real(OOM, 1, "all")
        own = answer.trials[0]
        assert answer.capacity_bytes == 84_298_432_512
        assert (own.fails_at, own.peak_reserved_bytes, own.caveat) == (421, 84_202_749_952, "")
        assert answer.worth_trying is None
        assert answer.says.startswith("No setting helps")

    @pytest.mark.parametrize("capacity", [84_208_000_000, 84_250_000_000, 84_298_432_512, 84_319_000_000])
    def test_the_real_failure_follows_from_a_capacity_alone(capacity: int):
        answer = real(OOM, 1, "expandable_segments:False", capacity=capacity)
        assert (answer.trials[0].fails_at, answer.trials[0].retries) == (421, 2)
        assert answer.worth_trying is None

    def test_the_real_failure_is_served_by_a_larger_card():
        """5,308,694,528 bytes failed: with 2 GiB more they still do, with 6 GiB more they do not."""
        two, six = ((84_298_432_512 + more * GIB) for more in (2, 6))
        assert real(OOM, 1, f"capacity:{two} bytes").trials[1].fails_at == 421
        assert real(OOM, 1, f"capacity:{six} bytes").trials[1].served_at == 421


if FOLDER is not None and (FOLDER / RETRY).is_file():

    @pytest.mark.parametrize("tenths", [227, 235, 250])
    def test_the_real_retry_follows_from_a_capacity(tenths: int):
        own = real(RETRY, 0, "expandable_segments:True", capacity=tenths * GIB // 10).trials[0]
        assert (own.fails_at, own.retries, own.releases) == (None, 1, 17)

    def test_the_real_retry_fails_on_a_smaller_card():
        own = real(RETRY, 0, "expandable_segments:True", capacity=225 * GIB // 10).trials[0]
        assert own.fails_at is not None

    def test_the_real_retry_tells_a_range():
        answer = real(RETRY, 0, "max_split_size_mb:512")
        assert answer.capacity_bytes is not None
        assert 24_366_809_088 <= answer.capacity_bytes < 27 * GIB
        assert "given back" in answer.capacity_how
