"""The verdict from the numbers alone, on both sides of each border."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import Verdict
from oomph.diagnose.snapshot.scene import Scene
from oomph.diagnose.snapshot.verdicts import MARGIN_BYTES, decide, ruled_out
from oomph.units import GIB, MIB

DEFAULT = (0, (0, 0), False)
SIDE = (7, (0, 0), False)

#: 10 GiB reserved, of which 8 in use and 2 cached (1.5 in the request's own list, the largest piece 0.5); the driver
#: has 0.25 GiB. So 2.25 GiB are not in use.
SCENE = Scene(
    request=2 * GIB,
    segment=2 * GIB,
    driver=2 * GIB,
    list=DEFAULT,
    hole=GIB // 2,
    own=GIB + GIB // 2,
    cached=2 * GIB,
    waiting=0,
    free=GIB // 4,
    reserved=10 * GIB,
    allocated=8 * GIB,
    others=((SIDE, GIB // 2, GIB // 2),),
)


def verdict(**changes: object) -> tuple[Verdict, Certainty]:
    return decide(replace(SCENE, **changes))[:2]  # type: ignore[arg-type]


def test_more_than_all_that_is_not_in_use_is_full():
    # 2.25 GiB + 512 bytes: nothing could have served it.
    assert verdict(request=2 * GIB + GIB // 4 + 512) == (Verdict.FULL, Certainty.CERTAIN)


def test_just_what_is_not_in_use_is_not_full():
    assert verdict(request=2 * GIB + GIB // 4)[0] is not Verdict.FULL


def test_how_much_is_missing():
    assert replace(SCENE, request=3 * GIB).short == GIB - GIB // 4
    assert SCENE.short == 0
    assert replace(SCENE, free=None).short is None


def test_own_pieces_that_are_enough_are_fragmentation_for_sure():
    assert verdict(request=GIB + GIB // 2, segment=GIB + GIB // 2) == (Verdict.FRAGMENTED, Certainty.CERTAIN)


def test_own_pieces_and_free_memory_together_are_likely_fragmentation():
    assert verdict(request=GIB + 3 * GIB // 4) == (Verdict.FRAGMENTED, Certainty.LIKELY)


def test_small_pieces_beside_much_free_memory_are_no_fragmentation_to_speak_of():
    # 2 GiB asked, 1.9 GiB free and 0.15 GiB in pieces: 7 % of the request.
    changes = {"free": 1900 * MIB, "own": 150 * MIB, "hole": 50 * MIB}
    assert verdict(**changes) == (Verdict.FRAGMENTED, Certainty.POSSIBLE)


def test_what_only_the_other_lists_could_add():
    assert verdict(request=2 * GIB) == (Verdict.OTHER_POOL, Certainty.LIKELY)


def test_another_list_with_a_piece_that_would_do_is_certain():
    changes = {
        "others": ((SIDE, 2 * GIB, 2 * GIB),),
        "own": 0,
        "hole": 0,
        "cached": 2 * GIB,
    }
    assert verdict(**changes) == (Verdict.OTHER_POOL, Certainty.CERTAIN)


def test_a_few_pieces_elsewhere_are_only_a_possible_reason():
    # 2 GiB asked, 1.9 GiB free and nothing of its own; 0.15 GiB in another list, 7 % of the request.
    changes = {
        "free": 1900 * MIB,
        "own": 0,
        "hole": 0,
        "cached": 150 * MIB,
        "allocated": 10 * GIB - 150 * MIB,
    }
    held = ((SIDE, 50 * MIB, 150 * MIB),)
    assert verdict(**changes, others=held) == (Verdict.OTHER_POOL, Certainty.POSSIBLE)


def test_blocks_that_wait_for_another_stream():
    # 2.5 GiB asked; 2.25 were not in use, and 1 GiB of what was in use waits.
    changes = {"request": 2 * GIB + GIB // 2, "allocated": 7 * GIB, "waiting": GIB}
    assert verdict(**changes) == (Verdict.OTHER_POOL, Certainty.LIKELY)
    assert verdict(**(changes | {"request": 4 * GIB}))[0] is Verdict.FULL


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        (2 * GIB - 1, Verdict.FRAGMENTED),
        (2 * GIB, Verdict.CAPPED),
        (2 * GIB + MARGIN_BYTES, Verdict.CAPPED),
    ],
)
def test_what_the_driver_had_and_did_not_give(free: int, expected: Verdict):
    assert verdict(free=free)[0] is expected


def test_a_cap_is_likely_only_beyond_the_drivers_own_needs():
    assert verdict(free=2 * GIB + MARGIN_BYTES - 1)[1] is Certainty.POSSIBLE
    assert verdict(free=2 * GIB + MARGIN_BYTES)[1] is Certainty.LIKELY


def test_what_was_there_before_and_would_have_served():
    # 1.75 GiB more make the driver's 0.25 to 2 GiB, just what it had to give.
    enough = 2 * GIB - GIB // 4
    assert verdict(outside_growth=enough) == (Verdict.OUTSIDE_GREW, Certainty.CERTAIN)
    assert verdict(outside_growth=enough - 1)[0] is Verdict.OTHER_POOL


def test_a_growth_within_the_drivers_noise_is_no_reason():
    changes = {"free": 2 * GIB - 1, "outside_growth": MARGIN_BYTES - 1}
    assert verdict(**changes)[0] is Verdict.FRAGMENTED
    assert verdict(**(changes | {"outside_growth": MARGIN_BYTES}))[0] is Verdict.OUTSIDE_GREW


def test_a_block_that_is_large_enough_leaves_the_reason_open():
    assert verdict(hole=2 * GIB, own=2 * GIB) == (Verdict.UNKNOWN, Certainty.POSSIBLE)


def test_max_split_size_keeps_large_blocks_for_large_requests():
    limited = {"hole": 2 * GIB, "own": 2 * GIB, "request": GIB, "split_limit": GIB + 1}
    assert verdict(**limited) == (Verdict.FRAGMENTED, Certainty.LIKELY)
    assert "max_split_size_mb" in decide(replace(SCENE, **limited))[2]  # type: ignore[arg-type]


def test_without_free_bytes_only_pieces_are_known():
    assert verdict(free=None)[0] is Verdict.UNKNOWN
    assert verdict(free=None, own=2 * GIB) == (Verdict.FRAGMENTED, Certainty.LIKELY)


def test_what_is_ruled_out_names_the_number():
    full = replace(SCENE, request=3 * GIB, driver=3 * GIB)
    reasons = {one.cause: one.why for one in ruled_out(full, Verdict.FULL)}
    assert reasons["cap"] == "the driver had 256.00 MiB free, less than the 3.00 GiB it had to give"
    assert "all 2.00 GiB cached and 256.00 MiB free" in reasons["fragmentation"]
    assert "growth outside" in reasons
    assert list(ruled_out(full, Verdict.UNKNOWN)) == []
