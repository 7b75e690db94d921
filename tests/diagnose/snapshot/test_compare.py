"""Two snapshots side by side: what is new, gone, grown and shrunk."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.compare import MOST_ROWS, compare
from oomph.diagnose.snapshot.compare_match import tail
from oomph.diagnose.snapshot.compare_model import Change, Matching
from oomph.errors import UsageError
from oomph.memory.categories import Category
from oomph.memory.stacks import Frame
from oomph.units import MIB
from tests.diagnose.snapshot.compare_snapshots import Block, analysis
from tests.evidence.snapshot.build import SETTINGS

WEIGHT = [
    ("Linear", "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 106),
    ("build", "train.py", 10),
]
HIDDEN = [
    ("relu", "/venv/lib/python3.11/site-packages/torch/nn/functional.py", 1500),
    ("forward", "model.py", 20),
]
LOGITS = [("float", "loss.py", 7), ("step", "train.py", 30)]
STATE = [
    ("_init_group", "/venv/lib/python3.11/site-packages/torch/optim/adam.py", 150),
    ("step", "train.py", 34),
]

P, A, S, T = Category.PARAMETERS, Category.ACTIVATIONS, Category.OPTIMIZER_STATE, Category.TEMPORARIES
BEFORE: list[Block] = [(100 * MIB, WEIGHT, P), (40 * MIB, HIDDEN, A), (60 * MIB, LOGITS, T)]
AFTER: list[Block] = [
    (100 * MIB, WEIGHT, P),
    (30 * MIB, HIDDEN, A),
    (40 * MIB, HIDDEN, A),
    (200 * MIB, STATE, S),
]


def two(a: list[Block], b: list[Block], **more):
    return compare(
        [
            ("before.pickle", analysis(a, "before.pickle")),
            ("after.pickle", analysis(b, "after.pickle", **more)),
        ]
    )


def changes(comparison):
    return [
        (row.change, row.category, row.a_bytes, row.b_bytes, row.a_blocks, row.b_blocks)
        for row in comparison.stacks
    ]


def test_new_gone_and_grown_stacks_largest_first():
    result = two(BEFORE, AFTER)
    assert changes(result) == [
        (Change.NEW, S, 0, 200 * MIB, 0, 1),
        (Change.GONE, T, 60 * MIB, 0, 1, 0),
        (Change.GROWN, A, 40 * MIB, 70 * MIB, 1, 2),
    ]
    assert result.stacks[0].frames == tuple(Frame(*frame) for frame in STATE)
    assert result.stacks[0].place == Frame("step", "train.py", 34)
    assert (result.what, result.noun, result.certainty) == ("two", "snapshots", Certainty.CERTAIN)
    assert result.matching == (Matching.STACK,)


def test_shrunk_is_grown_the_other_way():
    assert changes(two(AFTER, BEFORE))[2] == (Change.SHRUNK, A, 70 * MIB, 40 * MIB, 2, 1)


def test_a_stack_that_became_something_else_is_two_rows():
    """Autocast turns on: what `linear` made were activations, and are mostly copies of weights now."""
    result = two([(40 * MIB, HIDDEN, A)], [(100 * MIB, HIDDEN, P), (30 * MIB, HIDDEN, A)])
    assert changes(result) == [
        (Change.NEW, P, 0, 100 * MIB, 0, 1),
        (Change.SHRUNK, A, 40 * MIB, 30 * MIB, 1, 1),
    ]


def test_a_few_bytes_of_another_category_do_not_split_a_stack():
    result = two([(40 * MIB, HIDDEN, A)], [(100 * MIB, HIDDEN, A), (30 * MIB, HIDDEN, T)])
    assert changes(result) == [(Change.GROWN, A, 40 * MIB, 130 * MIB, 1, 2)]


def test_categories_and_sides():
    result = two(BEFORE, AFTER, free=30 * MIB)
    assert [(row.category, row.bytes, row.difference_bytes) for row in result.categories] == [
        (S, (0, 200 * MIB), 200 * MIB),
        (T, (60 * MIB, 0), -60 * MIB),
        (A, (40 * MIB, 70 * MIB), 30 * MIB),
        (P, (100 * MIB, 100 * MIB), 0),
    ]
    a, b = result.sides
    assert (a.label, a.allocated_bytes, a.reserved_bytes, a.cached_bytes) == (
        "before.pickle",
        200 * MIB,
        202 * MIB,
        2 * MIB,
    )
    assert (b.label, b.allocated_bytes, b.reserved_bytes, b.cached_bytes) == (
        "after.pickle",
        370 * MIB,
        400 * MIB,
        30 * MIB,
    )
    assert (a.blocks, b.blocks) == (3, 4)
    assert (a.peak_allocated_bytes, a.peak_reserved_bytes) == (200 * MIB, 202 * MIB)


def test_the_answer_has_the_numbers():
    assert two(BEFORE, AFTER).says == (
        "after.pickle has 370.00 MiB allocated, 170.00 MiB more than before.pickle (200.00 MiB): optimizer state "
        "+200.00 MiB, temporaries -60.00 MiB, and 1 other category. The largest single difference is new: 200.00 MiB "
        "of optimizer state at step (train.py:34)."
    )


def test_the_same_is_said_to_be_the_same():
    result = two(BEFORE, list(reversed(BEFORE)))
    assert result.stacks == ()
    assert result.says == "before.pickle and after.pickle hold the same: 200.00 MiB allocated."


def test_as_much_but_not_for_the_same():
    result = two([(8 * MIB, WEIGHT, P)], [(8 * MIB, LOGITS, T)])
    assert result.says.startswith(
        "before.pickle and after.pickle have 8.00 MiB allocated, but not for the same: "
    )
    assert [row.change for row in result.stacks] == [Change.GONE, Change.NEW]


def other_folder(frames):
    return [
        (
            name,
            file.replace("/venv/lib/python3.11", "C:\\env\\lib").replace("train.py", "/home/b/train.py"),
            line,
        )
        for name, file, line in frames
    ]


def test_another_folder_is_the_same_stack():
    moved: list[Block] = [(size, other_folder(frames), category) for size, frames, category in AFTER]
    result = two(BEFORE, moved)
    assert [(change[0], *change[2:4]) for change in changes(result)] == [
        (Change.NEW, 0, 200 * MIB),
        (Change.GONE, 60 * MIB, 0),
        (Change.GROWN, 40 * MIB, 70 * MIB),
    ]
    assert result.stacks[2].matching is Matching.MOVED
    assert result.certainty is Certainty.LIKELY
    assert "lines, folders or C++ frames are not the same" in result.notes[0]


def edited(frames, by=3):
    return [(name, file, line + by if file == "train.py" else line) for name, file, line in frames]


def test_lines_that_moved_by_an_edit():
    after: list[Block] = [(2 * size, edited(frames), category) for size, frames, category in BEFORE]
    assert changes(two(BEFORE, after)) == [
        (Change.GROWN, P, 100 * MIB, 200 * MIB, 1, 1),
        (Change.GROWN, T, 60 * MIB, 120 * MIB, 1, 1),
        (Change.GROWN, A, 40 * MIB, 80 * MIB, 1, 1),
    ]


def test_another_line_of_a_file_that_was_not_edited_is_another_stack():
    lines: list[Block] = [(MIB, [("step", "train.py", line)], T) for line in range(1, 9)]
    result = two(
        [*lines, (50 * MIB, [("step", "train.py", 20)], T)],
        [*lines, (50 * MIB, [("step", "train.py", 21)], T)],
    )
    assert [change[0] for change in changes(result)] == [Change.GONE, Change.NEW]


def test_another_caller_of_the_same_code():
    a: list[Block] = [(10 * MIB, [*HIDDEN, ("main", "profile.py", 5)], A)]
    b: list[Block] = [(16 * MIB, [*HIDDEN, ("evaluate", "bench.py", 50), ("main", "bench.py", 80)], A)]
    result = two(a, b)
    assert changes(result) == [(Change.GROWN, A, 10 * MIB, 16 * MIB, 1, 1)]
    assert result.stacks[0].matching is Matching.PLACE
    assert result.certainty is Certainty.LIKELY


def test_frames_of_the_interpreter_do_not_part_stacks():
    def with_c(version):
        return [
            HIDDEN[0],
            ("_PyEval_EvalFrame", f"/src/python-{version}/Include/pycore_ceval.h", 89),
            HIDDEN[1],
        ]

    result = two([(10 * MIB, with_c("3.11"), A)], [(12 * MIB, with_c("3.12"), A)])
    assert changes(result) == [(Change.GROWN, A, 10 * MIB, 12 * MIB, 1, 1)]
    assert result.stacks[0].matching is Matching.MOVED


def test_stacks_without_python_are_matched_by_functions():
    def autograd(folder):
        return [
            ("at::empty", f"{folder}/empty.cpp", 0),
            ("torch::autograd::Engine::thread_main", f"{folder}/engine.cpp", 0),
        ]

    result = two([(10 * MIB, autograd("/a"), T)], [(13 * MIB, autograd("/b"), T)])
    assert changes(result) == [(Change.GROWN, T, 10 * MIB, 13 * MIB, 1, 1)]


def test_blocks_without_a_stack_are_compared_by_category():
    result = two([(10 * MIB, [], P), (5 * MIB, [], T)], [(10 * MIB, [], P), (7 * MIB, [], T)])
    assert changes(result) == [(Change.GROWN, T, 5 * MIB, 7 * MIB, 1, 1)]
    assert result.stacks[0].place is None
    assert "100 % of what was alive has no stack" in result.notes[0]
    assert "+2.00 MiB of temporaries without a recorded stack" in result.says


def test_settings_that_differ():
    settings = SETTINGS | {"max_split_size": 128 * MIB, "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}
    result = two(BEFORE, BEFORE, allocator_settings=settings)
    assert [(row.name, row.values) for row in result.settings] == [
        ("max_split_size_mb", ("unlimited", "128.00 MiB"))
    ]
    assert two(BEFORE, BEFORE).settings == ()


def test_settings_that_were_not_recorded_are_not_called_defaults():
    result = two(BEFORE, BEFORE, allocator_settings={})
    assert ("max_split_size_mb", ("unlimited", "not recorded")) in [
        (row.name, row.values) for row in result.settings
    ]


def test_rows_beyond_those_listed_are_counted():
    # Blocks of 512, 1024, ... bytes at as many lines; the smallest seven fall out.
    many: list[Block] = [(512 * number, [("f", "a.py", number)], T) for number in range(1, MOST_ROWS + 8)]
    result = two(BEFORE, [*BEFORE, *many])
    assert len(result.stacks) == MOST_ROWS
    assert result.left_out == 7
    assert result.left_out_bytes == 512 * (1 + 2 + 3 + 4 + 5 + 6 + 7)


def test_equal_labels_are_numbered():
    result = compare(
        [("run.pickle", analysis(BEFORE, "a/run.pickle")), ("run.pickle", analysis(AFTER, "b/run.pickle"))]
    )
    assert [side.label for side in result.sides] == ["run.pickle (1)", "run.pickle (2)"]


def test_one_alone_is_refused():
    with pytest.raises(UsageError, match="two snapshots or more"):
        compare([("a", analysis(BEFORE))])


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/a/train.py", "train.py"),
        ("C:\\Users\\b\\train.py", "train.py"),
        ("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", "torch/nn/modules/linear.py"),
        ("C:\\env\\Lib\\site-packages\\torch\\optim\\adam.py", "torch/optim/adam.py"),
        ("/usr/lib/python3.10/threading.py", "threading.py"),
        ("??", "??"),
    ],
)
def test_what_other_folders_leave_of_a_path(file, expected):
    assert tail(file) == expected
