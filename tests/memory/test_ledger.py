from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.memory.ledger import Ledger
from oomph.units import GIB, MIB, Amount


def exact(**sizes):
    return {name: Amount(size) for name, size in sizes.items()}


def test_the_two_sides_of_an_oom_message():
    """As PyTorch 2.4+ prints it: capacity, free, this process, allocated, unallocated."""
    ledger = Ledger.build(
        exact(
            capacity_bytes=80 * GIB,
            free_bytes=1 * GIB,
            process_bytes=79 * GIB,
            allocated_bytes=70 * GIB,
            cached_bytes=7 * GIB,
        )
    )
    assert ledger.reserved_bytes == 77 * GIB  # 70 + 7
    assert ledger.outside_bytes == 2 * GIB  # 79 - 77
    assert ledger.other_processes_bytes == 0  # 80 - 1 - 79
    assert ledger.not_torch_bytes == 2 * GIB  # 80 - 1 - 77
    assert ledger.problems == ()


def test_the_message_of_pytorch_1_allows_only_the_sum_of_outside_and_others():
    """Without a process clause: capacity, free, allocated, reserved."""
    ledger = Ledger.build(
        exact(capacity_bytes=24 * GIB, free_bytes=1 * GIB, allocated_bytes=15 * GIB, reserved_bytes=17 * GIB)
    )
    assert ledger.cached_bytes == 2 * GIB
    assert ledger.not_torch_bytes == 6 * GIB  # 24 - 1 - 17
    assert ledger.outside_bytes is None
    assert ledger.other_processes_bytes is None
    assert ledger.unexplained_bytes == 6 * GIB


def test_origins_say_what_was_printed_and_what_was_derived():
    ledger = Ledger.build(exact(allocated_bytes=3 * GIB, reserved_bytes=4 * GIB))
    assert ledger.origins == {
        "allocated_bytes": "printed",
        "reserved_bytes": "printed",
        "cached_bytes": "= reserved - allocated",
    }


def test_rounding_adds_up():
    ledger = Ledger.build({"allocated_bytes": Amount(3 * GIB, 5), "cached_bytes": Amount(1 * GIB, 7)})
    assert ledger.slack_bytes["reserved_bytes"] == 12


def test_unknown_stays_unknown():
    ledger = Ledger.build({"request_bytes": Amount(20 * MIB), "free_bytes": None})
    assert ledger.request_bytes == 20 * MIB
    assert ledger.free_bytes is None
    assert ledger.short_by_bytes is None
    assert ledger.cached_ratio is None
    assert ledger.unexplained_bytes is None


def test_an_unknown_name_is_a_programming_error():
    with pytest.raises(KeyError, match="speed"):
        Ledger.build({"speed": Amount(1)})


def test_reserved_below_allocated_is_a_problem_not_an_exception():
    """The famous made-up log: "0 bytes reserved in total" with 35 GiB allocated."""
    ledger = Ledger.build(exact(allocated_bytes=35 * GIB, reserved_bytes=0))
    assert [problem.code for problem in ledger.problems] == ["reserved-below-allocated"]
    assert "35.00 GiB" in ledger.problems[0].text
    assert ledger.cached_bytes is None


def test_more_free_than_there_is():
    ledger = Ledger.build(exact(capacity_bytes=8 * GIB, free_bytes=9 * GIB))
    assert [problem.code for problem in ledger.problems] == ["capacity-below-free"]


def test_a_difference_within_the_rounding_is_no_problem():
    ledger = Ledger.build({"allocated_bytes": Amount(1000, 10), "reserved_bytes": Amount(995, 10)})
    assert ledger.problems == ()
    assert ledger.cached_bytes == 0


def test_short_by_is_what_the_driver_lacked():
    ledger = Ledger.build(exact(segment_bytes=640 * MIB, free_bytes=412 * MIB))
    assert ledger.short_by_bytes == 228 * MIB
    roomy = Ledger.build(exact(segment_bytes=20 * MIB, free_bytes=412 * MIB))
    assert roomy.short_by_bytes == 0


def test_unexplained_leaves_out_what_has_a_name():
    ledger = Ledger.build(exact(capacity_bytes=24 * GIB, free_bytes=0, reserved_bytes=18 * GIB))
    assert ledger.unexplained_bytes == 6 * GIB
    named = Ledger.build(
        exact(capacity_bytes=24 * GIB, free_bytes=0, reserved_bytes=18 * GIB, other_processes_bytes=5 * GIB)
    )
    assert named.unexplained_bytes == 0  # 24 - 18 = 6 = 5 of others + 1 outside, both known now
    assert named.outside_bytes == 1 * GIB


def test_the_share_of_reserved_that_is_not_handed_out():
    ledger = Ledger.build(exact(reserved_bytes=10 * GIB, cached_bytes=2 * GIB))
    assert ledger.cached_ratio == pytest.approx(0.2)


sizes = st.integers(min_value=0, max_value=192 * GIB)


@given(free=sizes, others=sizes, outside=sizes, allocated=sizes, cached=sizes, hidden=st.integers(0, 3))
def test_any_true_card_adds_up_whichever_number_is_not_printed(
    free, others, outside, allocated, cached, hidden
):
    reserved = allocated + cached
    process = outside + reserved
    printed = exact(
        capacity_bytes=free + others + process,
        free_bytes=free,
        process_bytes=process,
        allocated_bytes=allocated,
        cached_bytes=cached,
    )
    wanted = {name: amount.bytes for name, amount in printed.items()}
    if hidden:
        printed.pop(("free_bytes", "allocated_bytes", "cached_bytes")[hidden - 1])
        printed["reserved_bytes"] = Amount(reserved)
    if hidden == 1:
        printed["other_processes_bytes"] = Amount(others)
    ledger = Ledger.build(printed)
    assert ledger.problems == ()
    assert {name: getattr(ledger, name) for name in wanted} == wanted
    assert (ledger.reserved_bytes, ledger.outside_bytes, ledger.other_processes_bytes) == (
        reserved,
        outside,
        others,
    )


@given(
    st.dictionaries(
        st.sampled_from(
            (
                "capacity_bytes",
                "free_bytes",
                "process_bytes",
                "reserved_bytes",
                "allocated_bytes",
                "cached_bytes",
                "other_processes_bytes",
            )
        ),
        st.builds(Amount, sizes, st.integers(0, MIB)),
    )
)
def test_no_set_of_numbers_makes_it_raise(printed):
    ledger = Ledger.build(printed)
    for name in printed:
        assert getattr(ledger, name) == printed[name].bytes
