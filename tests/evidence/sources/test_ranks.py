from __future__ import annotations

import pytest

from oomph.evidence.sources.ranks import Place, line_rank, place_files


def ranks(*names, own=None):
    return [place.rank for place in place_files(names, own or {})]


def test_a_torchrun_tree_gives_rank_and_attempt():
    names = [
        "logs/none_abc/attempt_0/0/stderr.log",
        "logs/none_abc/attempt_0/1/stderr.log",
        "logs/none_abc/attempt_1/1/error.json",
    ]
    assert place_files(names, {}) == [Place(0, 0), Place(1, 0), Place(1, 1)]


def test_any_file_below_an_attempt_belongs_to_its_rank():
    assert place_files(["attempt_2/7/worker.txt"], {}) == [Place(7, 2)]
    assert place_files([r"logs\run\attempt_0\3\stdout.log"], {}) == [Place(3, 0)]


def test_the_layout_without_attempts():
    assert place_files(["run/0/stdout.log", "run/1/stdout.log"], {}) == [Place(0), Place(1)]
    assert ranks("run/0/notes.txt", "2024/03/app.log") == [None, None]


def test_two_trees_may_be_two_nodes_so_local_ranks_prove_nothing():
    names = ["a/attempt_0/0/stderr.log", "b/attempt_0/0/stderr.log"]
    assert ranks(*names) == [None, None]


def test_a_tree_whose_files_name_a_global_rank_is_shifted_by_it():
    names = ["n1/attempt_0/0/stderr.log", "n1/attempt_0/3/stderr.log", "n0/attempt_0/0/stderr.log"]
    # The file of local rank 3 says [rank11]: so this node's ranks begin at 8.
    assert ranks(*names, own={1: 11}) == [8, 11, None]
    assert ranks(*names, own={1: 11, 2: 0}) == [8, 11, 0]


@pytest.mark.parametrize(
    "template",
    [
        "rank_{}.log",
        "rank{}.out",
        "log.rank-{}",
        "train.rank{}.txt",
        "out/RANK_{}/train.log",
        "worker_{}.log",
    ],
)
def test_names_give_ranks_when_siblings_follow_the_pattern(template):
    assert ranks(template.format(0), template.format(1), template.format(12)) == [0, 1, 12]
    assert ranks(template.format(3)) == [None]


def test_out_and_err_of_one_rank():
    names = ["rank_0.out", "rank_0.err", "rank_1.out", "rank_1.err"]
    assert ranks(*names) == [0, 0, 1, 1]


def test_numbers_that_repeat_over_nodes_are_local():
    assert ranks("node0_rank0.log", "node0_rank1.log", "node1_rank0.log", "node1_rank1.log") == [None] * 4
    assert ranks("a/rank_0.log", "a/rank_1.log", "b/rank_0.log", "b/rank_1.log") == [None] * 4
    # Global numbers do not repeat.
    assert ranks("node0_rank0.log", "node0_rank1.log", "node1_rank2.log", "node1_rank3.log") == [0, 1, 2, 3]


def test_two_kinds_of_file_for_the_same_ranks():
    assert ranks("train_rank0.log", "train_rank1.log", "memory_rank0.csv", "memory_rank1.csv") == [0, 1, 0, 1]


def test_workers_beside_a_master_are_not_numbered_from_rank_zero():
    assert ranks("job-master-0.log", "job-worker-0.log", "job-worker-1.log") == [None] * 3
    assert ranks("worker-1.log", "worker-2.log") == [None, None]


@pytest.mark.parametrize(
    "template",
    [
        "slurm-1234_{}.out",
        "slurm-{}.out",
        "train.{}.log",
        "gpu{}.log",
        "crank_{}.log",
        "worker-{}a7f-01-4711.out",
    ],
)
def test_other_numbers_are_not_ranks(template):
    assert ranks(template.format(0), template.format(1)) == [None, None]


def test_what_a_file_says_itself_counts_more_than_its_name():
    assert ranks("rank_0.log", "rank_1.log", own={1: 9}) == [0, 9]
    assert ranks("a.log", own={0: 4}) == [4]


def test_line_rank_needs_one_voice():
    assert line_rank(["x\n[rank3]: Traceback\n[rank3]:   File\n"]) == 3
    assert line_rank(["[rank3]: a\n", "[rank4]: b\n"]) is None
    assert line_rank(["in the middle [rank3]: a\n"]) is None
    assert line_rank([]) is None
