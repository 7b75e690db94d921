"""OOM301: enough cached memory, and no block of it that fits."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import FORWARD, causes, failed, finding, gib, mib, oom, ruled_out, top


def fragmented(request: str = "3.00 GiB", allocated: str = "44.00 GiB", cached: str = "33.00 GiB") -> str:
    """79.15 = 1.05 free + 78.10; 78.10 - 44.00 - 33.00 = 1.10 GiB of context."""
    return oom(request, allocated=allocated, cached=cached)


def test_a_large_cache_that_could_have_held_the_request() -> None:
    # 33.00 / (44.00 + 33.00) = 43 %
    diagnosis = failed(FORWARD, fragmented())
    found = finding(diagnosis, "fragmentation")
    assert top(diagnosis) == "fragmentation"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"cached_bytes": gib(33.00), "request_bytes": gib(3.00)}
    assert "33.00 GiB" in found.says
    assert "43%" in found.says
    assert found.actions[0] == "expandable-segments"


def test_a_cache_smaller_than_the_request_is_ruled_out_with_both_numbers() -> None:
    diagnosis = failed(FORWARD, oom("2.00 GiB", cached="1.10 GiB"))
    assert "fragmentation" not in causes(diagnosis)
    assert ruled_out(diagnosis, "fragmentation") == "all 1.10 GiB cached could not hold 2.00 GiB"


def test_a_large_share_does_not_help_a_larger_request() -> None:
    # 30 % cached, and the request is larger than all of it
    diagnosis = failed(FORWARD, oom("40.00 GiB", allocated="53.90 GiB", cached="23.10 GiB"))
    assert "fragmentation" not in causes(diagnosis)


def test_an_ordinary_cache_is_only_possible() -> None:
    # 5.00 / (72.00 + 5.00) = 6 %, yet larger than the request
    diagnosis = failed(FORWARD, oom("2.00 GiB", allocated="72.00 GiB", cached="5.00 GiB"))
    assert top(diagnosis) == "activations"
    found = finding(diagnosis, "fragmentation")
    assert found.certainty is Certainty.POSSIBLE
    assert found.actions[0] == "micro-batch"


@pytest.mark.parametrize(
    "setting",
    [
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "PYTORCH_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512",
        "export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8,expandable_segments:True",
    ],
)
def test_expandable_segments_that_are_on_are_not_advised(setting: str) -> None:
    diagnosis = failed(FORWARD, fragmented(), before=setting + "\n")
    found = finding(diagnosis, "fragmentation")
    assert found.certainty is Certainty.POSSIBLE
    assert "expandable-segments" not in found.actions


def test_the_messages_own_hint_is_not_a_setting() -> None:
    assert finding(failed(FORWARD, fragmented()), "fragmentation").certainty is Certainty.LIKELY


def test_a_small_pool_request_is_explained_as_one() -> None:
    # A tensor of 1 MiB or less asks the driver for 2 MiB; the large pool's blocks are not for it.
    diagnosis = failed(
        FORWARD,
        oom("2.00 MiB", free="1.50 MiB", process="79.14 GiB", allocated="46.00 GiB", cached="32.00 GiB"),
    )
    found = finding(diagnosis, "fragmentation")
    assert "small pool" in found.says
    assert found.numbers["request_bytes"] == mib(2)


def test_without_a_cached_figure_nothing_is_said() -> None:
    cut = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"
    diagnosis = failed(FORWARD, cut)
    assert "fragmentation" not in causes(diagnosis)
    assert "fragmentation" not in [one.cause for one in diagnosis.ruled_out]
