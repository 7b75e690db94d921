from __future__ import annotations

import dataclasses

import pytest

from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.snapshot.model import Moment, Trial, Verdict, WhatIf
from oomph.memory.categories import Category
from oomph.memory.stacks import Frame
from oomph.phases import Phase
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.places import frame_line, place_of, place_words, stack_place
from oomph.report.snapshot.tables import aligned
from oomph.report.snapshot.text import render_text
from oomph.report.snapshot.view import merge, prepare
from oomph.report.snapshot.words import (
    headline,
    moment_words,
    percent,
    ruled_out,
    seconds,
    sentence,
    trial_fails,
    verdict_words,
)
from oomph.units import GIB
from tests.report.snapshot import fakes


def says(report) -> str:
    return headline(prepare(report, SnapshotOptions()))


def failing(**more):
    return fakes.with_device(failure=dataclasses.replace(fakes.FAILURE, **more))


class TestHeadline:
    def test_what_where_and_why(self):
        assert says(fakes.full()) == (
            "GPU 0: a request of 1024.00 MiB failed in backward at gpt/model.py:212 (forward): the device was full"
        )

    @pytest.mark.parametrize("verdict", list(Verdict))
    @pytest.mark.parametrize("certainty", list(Certainty))
    def test_how_surely(self, verdict, certainty):
        words = verdict_words(dataclasses.replace(fakes.FAILURE, verdict=verdict, certainty=certainty))
        sure = certainty is Certainty.CERTAIN or verdict is Verdict.UNKNOWN
        assert words.endswith(f"({certainty})") is not sure

    def test_a_verdict_that_is_not_known_is_said_so(self):
        assert says(failing(verdict=Verdict.UNKNOWN)).endswith("the snapshot does not say enough to tell why")

    def test_a_job_that_went_on(self):
        report = failing(caught=True)
        assert says(report).endswith("the device was full; the job went on after it")
        assert report.exit_code == 0

    def test_without_stacks_and_at_another_moment_no_place_is_made_up(self):
        moment = dataclasses.replace(fakes.MOMENT, kind="asked for", position=12, phase=Phase.OPTIMIZER)
        failure = dataclasses.replace(fakes.FAILURE, frames=())
        report = fakes.with_device(moment=moment, failure=failure)
        assert says(report) == "GPU 0: a request of 1024.00 MiB failed: the device was full"

    @pytest.mark.parametrize(("count", "times"), [(1, "once"), (3, "3 times")])
    def test_retries(self, count, times):
        device = fakes.no_failure().devices[0]
        report = fakes.with_device(failure=None, retries=device.retries * count)
        assert (
            says(report) == f"GPU 0: no request failed, but cached memory was given back {times} to serve one"
        )

    def test_growth(self):
        growth = fakes.no_failure().devices[0].growth
        report = fakes.with_device(failure=None, growth=growth)
        assert says(report) == "GPU 0: no request failed, but memory grows by 64.00 MiB in each step"

    def test_nothing_at_all(self):
        assert says(fakes.empty()).startswith("The snapshot is empty")
        unused = dataclasses.replace(fakes.several_devices(), shown=2)
        assert says(unused).startswith("The snapshot is empty")


class TestMoment:
    def test_event_time_phase_and_step(self):
        # Step 3, counted from 0, of 4.
        assert moment_words(fakes.device()) == (
            "It was event 7,800 of 8,000, 12.35 s after the first, in backward (told by stacks), in training step 3 "
            "(of 4, from 0)."
        )

    def test_a_step_that_the_failure_cut_off_is_not_counted(self):
        moment = dataclasses.replace(fakes.MOMENT, step=4)
        assert moment_words(fakes.device(moment=moment)).endswith(
            "in training step 4 (from 0; not finished)."
        )

    def test_steps_that_are_only_possible(self):
        """Requests that repeat may be those of a training step or of a loop of inference."""
        steps = fakes.device().steps
        assert steps is not None
        steps = dataclasses.replace(steps, certainty=Certainty.POSSIBLE)
        words = moment_words(fakes.device(steps=steps))
        assert words.endswith("possibly in training step 3 (of 4, from 0).")

    def test_what_was_not_recorded_is_left_out(self):
        moment = Moment("asked for", -1, 8000)
        words = moment_words(fakes.device(moment=moment, steps=None))
        assert words == (
            "Shown is the moment that was asked for: the start, before the first event, in an unknown phase."
        )
        assert moment_words(fakes.device(events=0)) == ""

    @pytest.mark.parametrize(
        ("microseconds", "words"),
        [(0, "0.0 ms"), (99_949, "99.9 ms"), (100_000, "0.10 s"), (3_600_000_000, "3,600.00 s")],
    )
    def test_durations(self, microseconds, words):
        assert seconds(microseconds) == words


@pytest.mark.parametrize(
    ("part", "words"),
    [(0, "0 %"), (1, "< 1 %"), (9, "< 1 %"), (10, "1 %"), (994, "99 %"), (996, "> 99 %"), (1000, "100 %")],
)
def test_percent_of_a_thousand(part, words):
    assert percent(part, 1000) == words
    assert percent(part, 0) == ""


def test_one_reason_is_told_once():
    every = [RuledOut("cap", "4 GiB"), RuledOut("cap_or_limit", "4 GiB"), RuledOut("some_leak", "0 bytes")]
    assert ruled_out(every) == [("cap", "4 GiB"), ("some leak", "0 bytes")]


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        ("the driver", "The driver"),
        ("expandable_segments:True would", "expandable_segments:True would"),
        ("3 GiB", "3 GiB"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_but_a_setting_stays(text, begun):
    assert sentence(text) == begun


def test_a_trial_without_a_capacity_cannot_fail():
    trial = Trial("", "as it was", GIB, GIB, None, 0, 0)
    failed = dataclasses.replace(trial, fails_at=1234)
    known, unknown = (WhatIf(capacity, "", (trial,), None, "") for capacity in (GIB, None))
    assert [trial_fails(failed, known), trial_fails(trial, known), trial_fails(trial, unknown)] == [
        "at event 1,234",
        "no",
        "not known",
    ]


class TestPlaces:
    def test_python(self):
        frame = Frame("train", "C:\\work\\exp\\train.py", 7)
        assert place_words(frame) == "train exp/train.py:7"
        assert frame_line(frame) == "C:/work/exp/train.py:7, in train"
        assert place_words(Frame("<module>", "/a/b/c.py", 1)) == "b/c.py:1"
        library = Frame("step", "/opt/lib/python3.11/site-packages/torch/optim/adamw.py", 226)
        assert frame_line(library) == "torch/optim/adamw.py:226, in step"

    def test_what_cpp_frames_tell(self):
        # As real snapshots have them (stacks="all", a node of the autograd engine).
        frames = (
            Frame("torch::unwind::unwind()", "??", 0),
            Frame("at::detail::empty_cuda(c10::ArrayRef<long>)", "??", 0),
            Frame("at::_ops::bmm::redispatch(c10::DispatchKeySet, at::Tensor const&)", "??", 0),
            Frame("at::_ops::matmul::call(at::Tensor const&)", "??", 0),
            Frame("torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)", "??", 0),
            Frame("torch::autograd::Engine::thread_main()", "??", 0),
        )
        assert stack_place(None, frames) == "bmm in BmmBackward0 (C++)"
        assert stack_place(None, frames[3:4]) == "matmul (C++)"
        assert stack_place(None, frames[:2]) == "torch::unwind::unwind"
        assert stack_place(None, frames[:1] + frames[5:]) == "torch::autograd::Engine::thread_main"
        assert stack_place(None, ()) == "no stack was recorded"
        assert place_of(frames) is None
        assert says(failing(frames=frames)) == (
            "GPU 0: a request of 1024.00 MiB failed in backward at bmm in BmmBackward0 (C++): the device was full"
        )
        report = failing(frames=frames)
        came = "The request came from\n  bmm in BmmBackward0 (C++)\n\n"
        assert came in render_text(report, SnapshotOptions())
        assert "  at::_ops::matmul::call(at::Tensor const&)\n" in render_text(
            report, SnapshotOptions(stacks=True)
        )

    def test_the_users_code_is_what_redaction_left_of_it(self):
        inner = Frame("relu", "/site-packages/torch/nn/functional.py", 1)
        user = Frame("forward", "<path>/model.py", 2)
        assert place_of((inner, user)) == user
        assert place_of((inner,)) == inner


class TestMerge:
    def test_stacks_that_lead_to_one_place(self):
        # 20 + 4 GiB of activations come from model.py:212, in 1000 + 210 blocks.
        merged = merge(fakes.HOLDERS)
        assert [(one.category, one.bytes // GIB, one.blocks) for one in merged][:2] == [
            (Category.OPTIMIZER_STATE, 28, 580),
            (Category.ACTIVATIONS, 24, 1210),
        ]
        assert sum(one.bytes for one in merged) == sum(one.bytes for one in fakes.HOLDERS)
        assert len(merged) == len(fakes.HOLDERS) - 1

    def test_categories_and_phases_stay_apart(self):
        one = fakes.holder(GIB, 1, Category.ACTIVATIONS, (fakes.BLOCK,))
        others = (
            dataclasses.replace(one, category=Category.TEMPORARIES),
            dataclasses.replace(one, phase=Phase.EVAL),
        )
        assert len(merge((one, *others))) == 3

    def test_what_is_not_listed_is_counted(self):
        many = tuple(
            fakes.holder(GIB, 2, Category.UNKNOWN, (dataclasses.replace(fakes.BLOCK, line=line),))
            for line in range(1, 31)
        )
        text = render_text(fakes.with_device(holders=many), SnapshotOptions())
        assert "and 24.00 GiB in 48 blocks of 24 other places; --all lists them" in text
        assert "--all lists them" not in render_text(
            fakes.with_device(holders=many), SnapshotOptions(everything=True)
        )


class TestTables:
    ROWS = (("name", "size", "remark"), ("a", "1", "one two three four"), ("longer", "1000", ""))

    def test_numbers_stand_on_their_right_edge(self):
        assert aligned(self.ROWS, 40, "lrl") == [
            "  name    size  remark",
            "  a          1  one two three four",
            "  longer  1000",
        ]

    def test_the_last_column_is_wrapped(self):
        assert aligned(self.ROWS, 28, "lrl")[1:3] == ["  a          1  one two", "                three four"]

    def test_without_room_for_columns_a_row_is_text(self):
        lines = aligned(self.ROWS, 22, "lrl")
        assert " ".join(lines).split() == [
            *("name,", "size,", "remark", "a,", "1,", "one", "two", "three", "four", "longer,", "1000")
        ]
        assert all(line.startswith("  ") and len(line) <= 22 for line in lines)
        assert [line for line in lines if not line.startswith("    ")] == [
            "  name, size,",
            "  a, 1, one two",
            "  longer, 1000",
        ]

    def test_nothing(self):
        assert aligned((), 80, "") == []
