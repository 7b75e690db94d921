"""Run directories as they should be: what is read, and what is summed up."""

from __future__ import annotations

import pytest

from oomph.errors import InputError
from oomph.evidence.run.data import Outcome
from oomph.evidence.run.model import GpuSample
from oomph.evidence.run.read import is_run, rank_records, read_run
from oomph.phases import Phase
from oomph.probe.model import Counters, Gpu, Host
from tests.evidence.run.making import GIB, Maker


def dead(header) -> bool:
    return False


def test_a_whole_run(tmp_path):
    made = Maker(tmp_path / "run", world=2)
    for rank in (0, 1):
        made.begin(rank)
        for step in range(3):
            made.step(rank, step)
        made.end(rank, "completed")
    made.finish(0)
    made.fingerprint({"versions.torch": "2.13.0"})
    made.text("ranks/rank-00001.out", "step 1\n")
    run = read_run(tmp_path / "run")
    assert is_run(tmp_path / "run")
    assert (run.outcome, run.world_size, run.missing, run.first_failure) == (Outcome.COMPLETED, 2, (), None)
    assert sorted(run.ranks) == [0, 1]
    assert [len(run.ranks[0].phases), len(run.ranks[0].steps), run.ranks[0].steps_completed] == [9, 3, 3]
    assert run.fingerprints[0].values["versions.torch"] == "2.13.0"
    assert run.outputs == ("ranks/rank-00001.out",)
    assert run.notes == ()
    assert run.ranks[0].doing is None


def test_peaks_of_a_phase_and_the_first_step_apart(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.phase(0, Phase.LOAD, -1, peak=5 * GIB, after=4 * GIB)
    made.phase(0, Phase.FORWARD, 0, peak=9 * GIB, after=8 * GIB, start_allocated_bytes=4 * GIB)
    made.phase(0, Phase.FORWARD, 1, peak=7 * GIB, after=6 * GIB)
    made.phase(0, Phase.FORWARD, 2, peak=8 * GIB, after=6 * GIB, batch={"input_ids": (4, 512)})
    made.phase(0, Phase.FORWARD, 3, peak=7 * GIB, after=6 * GIB, host=Host(rss_bytes=3 * GIB))
    made.end(0, "completed")
    rank = read_run(tmp_path).ranks[0]
    forward = rank.summaries[Phase.FORWARD]
    assert forward.first is not None
    assert forward.later is not None
    assert (forward.first.allocated_bytes, forward.first.growth_bytes, forward.first.records) == (
        9 * GIB,
        5 * GIB,
        1,
    )
    assert (forward.later.allocated_bytes, forward.later.step, forward.later.records) == (8 * GIB, 2, 3)
    assert forward.later.batch == {"input_ids": (4, 512)}
    assert forward.later.rss_bytes == 3 * GIB
    assert rank.summaries[Phase.LOAD].later is None
    assert list(rank.summaries) == [Phase.LOAD, Phase.FORWARD]
    assert rank.peak_allocated_bytes == 9 * GIB


def test_growth_over_the_steps(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    for step in range(32):  # the first two are left out: 30 are left, their thirds are 20 steps apart
        made.step(0, step, after=GIB + step * 1000)
    growth = read_run(tmp_path, alive=dead).ranks[0].growth
    assert growth is not None
    assert (growth.allocated_per_step, growth.steady, growth.steps) == (1000.0, True, 30)


def test_no_growth_from_few_steps_and_no_steady_one_from_ups_and_downs(tmp_path):
    few, wavy = Maker(tmp_path / "a"), Maker(tmp_path / "b")
    few.begin(0)
    wavy.begin(0)
    for step in range(6):
        few.step(0, step, after=GIB * step)
    for step in range(40):
        wavy.step(0, step, after=GIB + (step % 7) * 1000)
    assert read_run(tmp_path / "a", alive=dead).ranks[0].growth is None
    growth = read_run(tmp_path / "b", alive=dead).ranks[0].growth
    assert growth is not None
    assert not growth.steady


def test_steps_that_were_not_all_recorded_still_count(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    for step in (0, 1, 2, 50, 100):
        made.step(0, step)
    assert read_run(tmp_path, alive=dead).ranks[0].steps_completed == 101


def test_a_failed_request_that_is_recorded_again_is_one(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    first = made.oom(0, Phase.BACKWARD, 0)
    made.add(
        0, type(first)(**{**{f: getattr(first, f) for f in first.__struct_fields__}, "message": "whole"})
    )
    made.end(0, "oom", "OutOfMemoryError: whole")
    rank = read_run(tmp_path).ranks[0]
    assert [one.message for one in rank.ooms] == ["whole"]
    assert rank.oom is not None
    assert rank.oom.message == "whole"
    assert rank.doing is not None
    assert (rank.doing.phase, rank.doing.certain) == (Phase.BACKWARD, True)


def test_a_caught_failure_is_not_the_end(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.oom(0, Phase.FORWARD, 0, caught=True)
    made.step(0, 0)
    made.end(0, "completed")
    rank = read_run(tmp_path).ranks[0]
    assert (rank.outcome, rank.oom, len(rank.ooms)) == (Outcome.COMPLETED, None, 1)


def test_an_oom_without_an_end_is_an_oom(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0)
    made.oom(0, Phase.OPTIMIZER, 1)
    rank = read_run(tmp_path, alive=dead).ranks[0]
    assert rank.outcome is Outcome.OOM
    assert rank.oom is not None


def test_a_killed_rank_was_doing_what_it_last_said(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0)
    made.now(0, Phase.SAVE, 1, where="checkpoint")
    doing = read_run(tmp_path, alive=dead).ranks[0].doing
    assert doing is not None
    assert (doing.phase, doing.step, doing.certain, doing.where) == (Phase.SAVE, 1, True, "checkpoint")


def test_between_two_phases_nothing_is_claimed(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    for step in range(4):
        made.step(0, step)
    made.phase(0, Phase.FORWARD, 4)
    made.now(0, Phase.FORWARD, 4, over=True)
    doing = read_run(tmp_path, alive=dead).ranks[0].doing
    assert doing is not None
    assert doing.phase is Phase.UNKNOWN
    assert "forward had ended" in doing.why


def test_without_that_file_what_came_next_before_is_likely(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    for step in range(4):
        made.step(0, step)
    made.phase(0, Phase.FORWARD, 4)
    doing = read_run(tmp_path, alive=dead).ranks[0].doing
    assert doing is not None
    assert (doing.phase, doing.step, doing.certain) == (Phase.BACKWARD, 4, False)


def test_what_an_earlier_attempt_was_doing_is_not_said_of_a_later_one(tmp_path):
    made = Maker(tmp_path)
    made.begin(0, pid=2**22 + 1)
    made.now(0, Phase.SAVE, 3, pid=2**22 + 1)
    made.begin(0, attempt=1)
    rank = read_run(tmp_path, alive=dead).ranks[0]
    assert rank.doing is None
    assert rank.attempts == (Outcome.KILLED, Outcome.KILLED)


def test_a_restart_is_judged_by_its_last_attempt(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.oom(0, Phase.BACKWARD, 0)
    made.end(0, "oom")
    made.begin(0, attempt=1)
    made.step(0, 0)
    made.end(0, "completed")
    run = read_run(tmp_path)
    assert run.ranks[0].attempts == (Outcome.OOM, Outcome.COMPLETED)
    assert (run.outcome, run.first_failure) == (Outcome.COMPLETED, None)


@pytest.mark.parametrize(
    ("alive", "outcome"), [(True, Outcome.RUNNING), (False, Outcome.KILLED), (None, Outcome.UNKNOWN)]
)
def test_a_rank_without_an_end(tmp_path, alive, outcome):
    made = Maker(tmp_path)
    made.begin(0)
    made.step(0, 0)
    assert read_run(tmp_path, alive=lambda header: alive).ranks[0].outcome is outcome


def test_once_the_command_has_ended_nobody_is_asked_in_vain(tmp_path):
    made = Maker(tmp_path)
    made.begin(0, host="another-host")
    made.step(0, 0)
    assert read_run(tmp_path).ranks[0].outcome is Outcome.UNKNOWN
    made.finish(137, 9)
    assert read_run(tmp_path).ranks[0].outcome is Outcome.KILLED


def test_a_rank_of_this_host_is_asked_by_its_process(tmp_path):
    import os

    made = Maker(tmp_path, world=2)
    made.begin(0, pid=os.getpid())
    made.begin(1)  # a process number that no system gives
    run = read_run(tmp_path)
    assert [run.ranks[rank].outcome for rank in (0, 1)] == [Outcome.RUNNING, Outcome.KILLED]


def test_missing_ranks_are_named(tmp_path):
    made = Maker(tmp_path, world=4)
    made.begin(2)
    run = read_run(tmp_path, alive=dead)
    assert (run.world_size, run.missing) == (4, (0, 1, 3))


def test_gpu_samples_by_host(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    made.gpus("node1", GpuSample(1.0, 1.0, (Gpu(0, used_bytes=GIB),)), GpuSample(2.0, 2.0, ()))
    assert [len(one.gpus) for one in read_run(tmp_path, alive=dead).gpus["node1"]] == [1, 0]


def test_very_many_records_are_summed_up_and_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr("oomph.evidence.run.read.MOST_RECORDS", 100)
    monkeypatch.setattr("oomph.evidence.run.read.LEAST_RECORDS", 100)
    made = Maker(tmp_path)
    made.begin(0)
    for step in range(100):
        made.step(0, step, peak=9 * GIB if step == 40 else 2 * GIB)
    run = read_run(tmp_path, alive=dead)
    rank = run.ranks[0]
    assert rank.left_out > 150
    assert len(rank.phases) <= 100
    later = rank.summaries[Phase.FORWARD].later
    assert later is not None
    assert (later.records, later.allocated_bytes, later.step) == (99, 9 * GIB, 40)
    assert any(one.step == 40 for one in rank.phases), "a new peak is kept"
    assert [one.step for one in rank.steps[-3:]] == [97, 98, 99]
    assert sum(1 for _ in rank_records(run, 0)) == 1 + 400


def test_a_thousand_ranks(tmp_path):
    made = Maker(tmp_path, world=1024)
    for rank in range(1024):
        made.begin(rank)
        made.phase(rank, Phase.FORWARD, 0)
        made.end(
            rank, "oom" if rank == 700 else "exception", "" if rank == 700 else "NCCL: remote process exited"
        )
    run = read_run(tmp_path)
    assert run.first_failure is not None
    assert run.first_failure.ranks == (700,)
    assert len(run.first_failure.victims) == 1023


def test_counters_of_a_phase_reach_its_summary(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    counters = Counters(
        allocated_bytes=1, reserved_bytes=4, active_bytes=2, peak_allocated_bytes=3, retries=2, ooms=1,
        free_bytes=5, outside_bytes=6, other_processes_bytes=7,
    )  # fmt: skip
    made.phase(0, Phase.EVAL, 5, counters=counters)
    peaks = read_run(tmp_path, alive=dead).ranks[0].summaries[Phase.EVAL].later
    assert peaks is not None
    assert (peaks.allocated_bytes, peaks.reserved_bytes, peaks.active_bytes, peaks.retries, peaks.ooms) == (
        3,
        4,
        2,
        2,
        1,
    )
    assert (peaks.free_bytes, peaks.outside_bytes, peaks.other_processes_bytes) == (5, 6, 7)


def test_what_is_no_run(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.log").write_text("step 1")
    assert not is_run(tmp_path / "logs")
    assert not is_run(tmp_path / "nowhere")
    assert not is_run("\0")
    with pytest.raises(InputError, match="no run directory"):
        read_run(tmp_path / "logs")


def test_a_folder_with_a_run_json_of_something_else_is_no_run(tmp_path):
    (tmp_path / "run.json").write_text('{"name": "sweep"}')
    assert not is_run(tmp_path)


def test_outputs_in_the_order_in_which_they_were_printed(tmp_path):
    made = Maker(tmp_path)
    made.begin(0)
    names = ("job.out", "job-before.out", "job-last.out", "job.err", "job-node-2.out", "job-node-2-last.out")
    ranks = ("ranks/rank-00000.out", "ranks/rank-00000.err", "ranks/rank-00001-last.out")
    for name in (*names, *ranks, "jobs.out", "my.out"):
        made.text(name, "x")
    assert read_run(tmp_path, alive=dead).outputs == (
        *("job.out", "job-before.out", "job-last.out", "job.err", "job-node-2.out", "job-node-2-last.out"),
        *ranks,
    )


def test_only_a_rank_s_own_command_says_that_it_is_gone(tmp_path):
    made = Maker(tmp_path, world=3, host="node0")
    for rank in range(3):
        made.begin(rank, host=f"node{rank}")
    made.text("job.out", "")
    made.finish(1)
    made.json("end-node1.json", {"time": 1.0, "exit_code": 1})
    run = read_run(tmp_path, alive=lambda header: None)
    assert [run.ranks[rank].outcome for rank in range(3)] == [Outcome.KILLED, Outcome.KILLED, Outcome.UNKNOWN]


def test_where_each_rank_has_a_command_each_speaks_for_itself(tmp_path):
    made = Maker(tmp_path, world=2, host="node0")
    for rank in range(2):
        made.begin(rank, host="node0")
    made.finish(0)
    made.json("end-rank-00001.json", {"time": 1.0, "exit_code": 137, "signal": 9})
    run = read_run(tmp_path, alive=lambda header: None)
    assert [run.ranks[rank].outcome for rank in range(2)] == [Outcome.UNKNOWN, Outcome.KILLED]
    assert run.end is not None
    assert run.end.exit_code == 137, "the one that went wrong speaks for the run"
