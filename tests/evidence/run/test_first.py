"""Who failed first: a cause before its consequences, and no order where clocks give none."""

from __future__ import annotations

from oomph.evidence.run.model import End, OomRecord
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from oomph.probe.model import Counters
from tests.evidence.run.making import Maker

GLOO = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:14475"


def dead(header) -> bool:
    return False


def test_a_failed_request_comes_before_lost_connections_whatever_the_wall_clocks_say(tmp_path):
    made = Maker(tmp_path, world=3)
    for rank in range(3):
        made.begin(rank)
    made.end(0, "exception", GLOO)
    made.oom(2, Phase.BACKWARD, 0)
    made.end(2, "oom")
    first = read_run(tmp_path, alive=dead).first_failure
    assert first is not None
    assert (first.ranks, first.victims, first.certain) == ((2,), (0, 1), True)


def test_of_two_failed_requests_on_a_host_its_steady_clock_decides(tmp_path):
    made = Maker(tmp_path, world=2)
    for rank in range(2):
        made.begin(rank)
    # The wall clock was set back between the two.
    for rank, time, clock in ((1, 9_000.0, 10.0), (0, 1_000.0, 10.5)):
        made.add(
            rank, OomRecord(Phase.FORWARD, 0, time, clock, "", 1, Counters()), End("oom", time, clock + 1)
        )
    first = read_run(tmp_path).first_failure
    assert first is not None
    assert first.ranks == (1,)


def test_between_hosts_a_second_is_no_order_and_a_minute_is(tmp_path):
    for name, later, expected in (("near", 1.0, (0, 1)), ("far", 60.0, (1,))):
        made = Maker(tmp_path / name, world=2)
        for rank in range(2):
            made.begin(rank, host=f"node{rank}")
        for rank, time in ((0, 1_000.0 + later), (1, 1_000.0)):
            made.add(rank, OomRecord(Phase.FORWARD, 0, time, 5.0, "", 1, Counters()), End("oom", time, 6.0))
        first = read_run(tmp_path / name).first_failure
        assert first is not None
        assert first.ranks == expected


def test_an_error_of_one_s_own_comes_before_connections_that_broke(tmp_path):
    made = Maker(tmp_path, world=3)
    for rank in range(3):
        made.begin(rank)
    made.end(0, "exception", GLOO)
    made.end(1, "exception", "ValueError: labels out of range")
    first = read_run(tmp_path, alive=dead).first_failure
    assert first is not None
    assert (first.ranks, first.victims) == ((1,), (0, 2))


def test_of_killed_ranks_nobody_is_first(tmp_path):
    made = Maker(tmp_path, world=2)
    made.begin(0)
    made.begin(1)
    first = read_run(tmp_path, alive=dead).first_failure
    assert first is not None
    assert (first.ranks, first.certain) == ((0, 1), False)
    assert "not recorded" in first.why


def test_a_killed_rank_before_connections_that_broke(tmp_path):
    made = Maker(tmp_path, world=2)
    made.begin(0)
    made.begin(1)
    made.end(0, "exception", GLOO)
    first = read_run(tmp_path, alive=dead).first_failure
    assert first is not None
    assert (first.ranks, first.victims) == ((1,), (0,))


def test_nobody_failed(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.end(0, "completed")
    assert read_run(tmp_path).first_failure is None
