"""One stream taken apart by rank."""

from __future__ import annotations

import random

import pytest

from oomph.recording.command.ranks import LocalRanks
from oomph.recording.command.split import Splitter
from tests.evidence.run.making import Maker


def split(data: bytes, sizes=(10**9,), *, offset: int | None = 0, labels: bool = False) -> dict[int, bytes]:
    found: dict[int, bytes] = {}

    def write(rank: int, line: bytes) -> None:
        found[rank] = found.get(rank, b"") + line

    splitter = Splitter(write, lambda local: None if offset is None else local + offset, labels=labels)
    at = 0
    turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    splitter.close()
    return found


TORCHRUN = b"launcher\n[default0]:a\n[default1]:b\n[default0]:[rank0]: c\n[default1]:d"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_prefixes_of_torchrun_however_the_bytes_come(size):
    assert split(TORCHRUN, (size,)) == {0: b"a\n[rank0]: c\n", 1: b"b\nd"}


def test_local_ranks_of_another_node(tmp_path):
    assert split(TORCHRUN, offset=8) == {8: b"a\n[rank0]: c\n", 9: b"b\nd"}
    assert split(TORCHRUN, offset=None) == {}


def test_another_role_that_was_named():
    found: list[tuple[int, bytes]] = []
    splitter = Splitter(lambda rank, line: found.append((rank, line)), lambda local: local, role="trainer")
    splitter.feed(b"[trainer2]:a\n[default0]:b\n")
    assert found == [(2, b"a\n")]


def test_global_prefixes_need_no_mapping():
    assert split(b"[rank3]: x\n[1,12]<stderr>: y\n", offset=None) == {3: b"x\n", 12: b"y\n"}


def test_labels_of_srun_only_where_they_are():
    assert split(b" 0: a\n12: b\n", labels=True) == {0: b"a\n", 12: b"b\n"}
    assert split(b" 0: a\n12: b\n") == {}


def test_what_only_looks_like_one():
    assert (
        split(
            b"[2026-01-01]: x\n[step3]: u\n[info]: y\n  [rank0]: z\n[rank99999999]: w\n 50%|###  | [00:01<00:02]\n"
        )
        == {}
    )


def test_a_line_without_end_is_passed_on_in_pieces():
    data = b"[rank1]: " + b"x" * (3 << 20) + b"\n[rank0]: y\n"
    found = split(data, (1 << 18,))
    assert found == {1: b"x" * (3 << 20) + b"\n", 0: b"y\n"}


def test_an_endless_line_of_nobody_is_not_held():
    assert split(b"." * (5 << 20) + b"\n[rank0]: y\n", (1 << 18,)) == {0: b"y\n"}


def test_random_cuts_give_the_same():
    source = random.Random(1)
    lines = [b"[default%d]:%d\n" % (source.randrange(4), number) for number in range(500)]
    whole = split(b"".join(lines))
    for _ in range(20):
        assert split(b"".join(lines), [source.randint(1, 40) for _ in range(50)]) == whole


def test_on_one_node_local_ranks_are_global(tmp_path):
    ranks = LocalRanks(tmp_path, ("torchrun", "--nproc-per-node", "4", "train.py"), {})
    assert ranks(3) == 3


def test_on_several_nodes_the_records_say_which_ranks_are_here(tmp_path):
    made = Maker(tmp_path, world=16)
    command = ("torchrun", "--nnodes=2", "--node-rank", "1", "train.py")
    assert LocalRanks(tmp_path, command, {})(3) is None
    made.begin(11)  # local rank 3 of this host
    made.begin(4, host="another-host")
    ranks = LocalRanks(tmp_path, command, {})
    assert (ranks(3), ranks(4)) == (11, None)
    assert LocalRanks(tmp_path, ("train",), {"SLURM_NNODES": "2"})(7) is None


@pytest.mark.parametrize("words", [("--nnodes=1",), ("--nnodes", "1:1"), ("--num_machines", "1")])
def test_one_node_said_is_one_node(tmp_path, words):
    assert LocalRanks(tmp_path, ("torchrun", *words, "train.py"), {"SLURM_NNODES": "1"})(2) == 2
