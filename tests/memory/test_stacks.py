"""Stacks: lists of frames to numbers, against comparing every list with every other."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.memory import stacks as module
from oomph.memory.stacks import Frame, Stacks

FRAMES: list[dict[str, object]] = [{"name": f"f{i}", "filename": "a.py", "line": i} for i in range(5)]


def obvious(lists):
    """Numbers by order of first occurrence, comparing what frames say."""
    seen: list[object] = []
    numbers = []
    for each in lists:
        if not each:
            numbers.append(-1)
            continue
        if each not in seen:
            seen.append(each)
        numbers.append(seen.index(each))
    return numbers


@given(st.lists(st.none() | st.lists(st.sampled_from(FRAMES), max_size=4), max_size=60))
def test_against_comparing_all(lists):
    together, alone = Stacks(), Stacks()
    numbers = together.numbers(lists)
    assert numbers.dtype == np.int32
    assert numbers.tolist() == [alone.number(each) for each in lists] == obvious(lists)
    assert len(together) == len({tuple(map(id, each)) for each in lists if each})


def test_many_parts():
    rng = random.Random(1)
    lists = [rng.choices(FRAMES, k=rng.randint(0, 3)) for _ in range(3 * module._PART + 7)]
    stacks = Stacks()
    numbers = stacks.numbers(lists).tolist()
    for number, frames in zip(numbers, lists, strict=True):
        assert [frame.function for frame in stacks.frames(number)] == [each["name"] for each in frames]
    assert numbers == obvious(lists)


def test_frames_that_say_the_same_are_one():
    stacks = Stacks()
    first = [{"name": "f", "filename": "a.py", "line": 1}]
    again = [{"line": 1, "name": "f", "filename": "a.py", "fx_node": "more"}]
    other = [{"name": "f", "filename": "a.py", "line": 2}]
    assert stacks.numbers([first, again, other]).tolist() == [0, 0, 1]
    assert len(stacks) == 2
    assert stacks.frames(0) == (Frame("f", "a.py", 1),)


def test_a_list_that_changes_later_does_not_change_its_stack():
    stacks = Stacks()
    frames = list(FRAMES[:2])
    assert stacks.number(frames) == 0
    frames.clear()
    assert stacks.number(frames) == -1
    assert [frame.function for frame in stacks.frames(0)] == ["f0", "f1"]
    assert stacks.number(FRAMES[:2]) == 0


def test_an_endless_list_that_is_named_everywhere_is_walked_once():
    class Counting(list):
        walks = 0

        def __iter__(self):
            Counting.walks += 1
            return super().__iter__()

    endless = Counting(FRAMES * 1000)
    stacks = Stacks()
    assert set(stacks.numbers([endless] * 20_000).tolist()) == {0}
    assert Counting.walks == 1
    assert len(stacks.frames(0)) == 5000


@pytest.mark.parametrize("length", [module._LONG - 1, module._LONG, module._LONG + 1])
def test_lengths_around_what_is_numbered_together(length):
    frames = (FRAMES * length)[:length]
    lists = [frames, list(frames), frames[:-1], [*frames[:-1], FRAMES[length % 5]]]
    stacks = Stacks()
    numbers = stacks.numbers(lists).tolist()
    assert [len(stacks.frames(number)) for number in numbers] == [length, length, length - 1, length]
    assert numbers[0] == numbers[1]
    assert sorted(set(numbers)) == [0, 1, 2]


def test_hashes_that_collide_separate_nothing_and_join_nothing(monkeypatch):
    lists = [FRAMES[:2], FRAMES[1:3], FRAMES[:1], FRAMES[:2], None, FRAMES[1:3]]
    monkeypatch.setattr(module, "_BY_DEPTH", np.zeros(module._LONG, np.uint64))
    assert Stacks().numbers(lists).tolist() == [0, 1, 2, 0, -1, 1]


def test_identities_without_the_memory_of_an_array(monkeypatch):
    monkeypatch.setattr(module, "_IDENTITY_IS_ADDRESS", False)
    lists = [FRAMES[:2], FRAMES[1:3], list(FRAMES[:2])]
    assert Stacks().numbers(lists).tolist() == [0, 1, 0]


def test_what_is_no_frame():
    stacks = Stacks()
    odd: list[object] = [3, None, "main", ("a",), {"name": [], "filename": {}, "line": True}]
    assert stacks.frames(stacks.number(odd)) == (Frame("?", "?", 0),) * 5
    assert stacks.frames(-1) == ()
