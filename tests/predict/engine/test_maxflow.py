import pytest

from oomph.predict.engine.maxflow import ENDLESS, Network


def cut(network):
    return network.reachable_after_cut("source", "sink")


def test_the_narrowest_place_is_cut():
    network = Network()
    network.add("source", "a", 5)
    network.add("a", "b", 2)
    network.add("b", "sink", 7)
    assert cut(network) == {"source", "a"}


def test_two_ways_are_cut_where_they_are_narrow():
    # 3 + 4 at the start, 2 + 10 at the end: the first way is cut late (2), the second early (4).
    network = Network()
    network.add("source", "a", 3)
    network.add("a", "sink", 2)
    network.add("source", "b", 4)
    network.add("b", "sink", 10)
    assert cut(network) == {"source", "a"}


def test_a_flow_may_have_to_be_taken_back():
    # The classical diamond: a greedy path through the middle edge must be undone. The least cut is 2 (both sources).
    network = Network()
    network.add("source", "a", 1)
    network.add("source", "b", 1)
    network.add("a", "b", 1)
    network.add("a", "sink", 1)
    network.add("b", "sink", 1)
    assert cut(network) == {"source"}


def test_what_cannot_be_cut():
    network = Network()
    network.add("source", "sink", ENDLESS)
    with pytest.raises(ValueError, match="cuts"):
        cut(network)
