"""Run directories and outputs of trials that ended in every way, and what is made of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oomph.evidence.run.model import (
    RANKS,
    End,
    Header,
    OomRecord,
    PhaseRecord,
    Run,
    RunEnd,
    StepRecord,
    rank_name,
)
from oomph.phases import Phase
from oomph.probe.model import Counters
from oomph.trial.engine import Finished, Task
from oomph.trial.goal import Goal, goal_after, goal_named
from oomph.trial.growth import growth_of
from oomph.trial.model import TrialOutcome
from oomph.trial.outcome import least_asked, read_trial
from oomph.trial.progress import Progress

GIB, MIB = 1 << 30, 1 << 20


def counters(allocated, peak=None):
    return Counters(
        allocated_bytes=allocated, reserved_bytes=allocated, active_bytes=allocated, requested_bytes=allocated,
        inactive_split_bytes=0, peak_allocated_bytes=peak or allocated, peak_reserved_bytes=peak or allocated,
        retries=0, ooms=0,
    )  # fmt: skip


class Rank:
    """The records of one rank, a second apart."""

    def __init__(self, rank=0, world=1, capacity=10 * GIB):
        self.clock = 100.0 + rank / 10
        self.rank = rank
        self.lines: list[Any] = [
            Header(1, rank, world, rank, 9_999_999, "host", self.clock, self.clock, capacity_bytes=capacity)
        ]

    def _at(self):
        self.clock += 1.0
        return {"time": self.clock, "clock": self.clock}

    def phase(self, phase, step, peak, start=GIB, raised=""):
        self.lines.append(
            PhaseRecord(phase=phase, step=step, seconds=1.0, counters=counters(start, peak),
                        start_allocated_bytes=start, raised=raised, **self._at())
        )  # fmt: skip
        return self

    def step(self, step, allocated=GIB, peak=2 * GIB):
        self.phase(Phase.FORWARD, step, peak - GIB // 2).phase(Phase.BACKWARD, step, peak)
        self.lines.append(StepRecord(step=step, seconds=1.0, counters=counters(allocated), **self._at()))
        return self

    def oom(self, phase, step, allocated, request, caught=False, message="CUDA out of memory."):
        self.lines.append(
            OomRecord(phase=phase, step=step, message=message, request_bytes=request,
                      counters=counters(allocated), caught=caught, **self._at())
        )  # fmt: skip
        return self

    def end(self, outcome, error=""):
        self.lines.append(End(outcome, error=error, **self._at()))
        return self


@pytest.fixture
def trial(tmp_path):
    def make(*ranks, code=0, stopped="", out="", reached=False, why=""):
        folder = tmp_path / "trial-001"
        (folder / "run" / RANKS).mkdir(parents=True)
        run = Run(1, "id", 1.0, ("train",), host="host")
        (folder / "run" / "run.json").write_bytes(msgspec.json.encode(run))
        (folder / "run" / "job.err").write_text(out)
        if code is not None:
            (folder / "run" / "end.json").write_bytes(msgspec.json.encode(RunEnd(1.0, code)))
        for rank in ranks:
            name = f"{rank_name(rank.rank)}.jsonl"
            content = b"".join(msgspec.json.encode(line) + b"\n" for line in rank.lines)
            (folder / "run" / RANKS / name).write_bytes(content)
        finished = Finished(Task("t", ("x",), folder, tmp_path), code, stopped, why, 12.0)
        return read_trial(finished, number=1, setting={"batch": 8}, reached=reached, goal="step 2")

    return make


def test_a_rank_out_of_memory_is_out_of_memory_everywhere(trial):
    """Rank 1 fails; rank 0 lost its connection because of that, and says so first in time."""
    found = trial(
        Rank(0, 2).step(0).end("exception", "DistBackendError: NCCL error: remote process exited"),
        Rank(1, 2)
        .step(0)
        .step(1)
        .oom(Phase.BACKWARD, 2, 9 * GIB, 2 * GIB)
        .end("oom", "OutOfMemoryError: ..."),
        code=1,
    )
    assert (found.outcome, found.rank, found.phase, found.step) == (TrialOutcome.OOM, 1, "backward", 2)
    assert found.request_bytes == 2 * GIB
    assert (found.world_size, found.capacity_bytes, found.known_by) == (2, 10 * GIB, "records")
    peaks = {peak.phase: peak for peak in found.peaks}
    # 9 GiB and a tensor whose segment has 2 GiB: more than 2 GiB - 2 MiB.
    assert (peaks["backward"].allocated_bytes, peaks["backward"].failed) == (11 * GIB - (2 << 20) + 512, True)
    assert (peaks["forward"].allocated_bytes, peaks["forward"].failed) == (2 * GIB - GIB // 2, False)
    assert peaks["forward"].start_bytes == GIB


@pytest.mark.parametrize(
    ("request_bytes", "least"),
    [
        (2 << 20, 512),  # the segment of every tensor up to 1 MiB
        (20 << 20, (1 << 20) + 512),  # the segment of every tensor above that and below 10 MiB
        (10 << 20, 10 << 20),
        (24 << 20, (22 << 20) + 512),
        (3_000_832, 3_000_832),
        (0, 0),
    ],
)
def test_the_least_that_a_failed_request_was_for(request_bytes, least):
    assert least_asked(request_bytes) == least


def test_a_killed_rank_whose_request_failed(trial):
    """It hung on its way out, and was ended."""
    found = trial(Rank().step(0).oom(Phase.FORWARD, 1, 9 * GIB, 2 * GIB), code=None, stopped="cancelled")
    assert (found.outcome, found.phase) == (TrialOutcome.OOM, "forward")


def test_a_request_that_a_library_does_without_is_no_failure(trial):
    """The allocator told of it, and no exception followed: cuDNN had tried a larger workspace."""
    rank = Rank().step(0).step(1).oom(Phase.FORWARD, 2, 9 * GIB, 2 * GIB, message="")
    found = trial(rank, code=None, stopped="cancelled", reached=True)
    assert found.outcome is TrialOutcome.FITS
    assert not any(peak.failed for peak in found.peaks)


def test_a_process_that_died_at_a_failed_request(trial):
    rank = Rank().step(0).oom(Phase.FORWARD, 1, 9 * GIB, 2 * GIB, message="")
    assert trial(rank, code=134).outcome is TrialOutcome.OOM


def test_stopped_because_it_has_shown_enough(trial):
    found = trial(Rank().step(0).step(1), code=None, stopped="cancelled", reached=True)
    assert found.outcome is TrialOutcome.FITS
    assert "step 2 on every rank" in found.why


def test_a_failure_that_was_caught_is_none(trial):
    found = trial(
        Rank().step(0).oom(Phase.FORWARD, 1, 9 * GIB, 2 * GIB, caught=True).step(1).end("completed")
    )
    assert found.outcome is TrialOutcome.FITS
    assert "caught" in found.why


@pytest.mark.parametrize(
    ("stopped", "outcome"),
    [
        ("seconds", "hung"),
        ("memory", "host_oom"),
        ("disk", "disk"),
        ("cancelled", "cancelled"),
        ("lost", "lost"),
    ],
)
def test_what_stopped_it(trial, stopped, outcome):
    found = trial(Rank().step(0), code=None, stopped=stopped)
    assert found.outcome.value == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("ValueError: no", "crashed"),
        (
            "torch.distributed.DistBackendError: NCCL error in: x.hpp:1, unhandled system error",
            "communication",
        ),
        (
            "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1",
            "communication",
        ),
        ("OSError: [Errno 28] No space left on device", "disk"),
    ],
)
def test_how_it_ended_by_itself(trial, error, outcome):
    found = trial(Rank().step(0).end("exception", error), code=1, out=f"Traceback:\n{error}\n")
    assert found.outcome.value == outcome
    assert error[:20] in found.why or outcome == "disk"


def test_killed_without_a_word_is_not_taken_for_anything(trial):
    found = trial(Rank().step(0), code=137)
    assert found.outcome in (TrialOutcome.CRASHED, TrialOutcome.HOST_OOM)
    assert not found.outcome.tells


def test_growth():
    """The first step makes the optimizer's states; then 3 MiB a step."""
    from oomph.evidence.run.data import RankData

    def data(*allocated):
        rank = Rank()
        for step, size in enumerate(allocated):
            rank.step(step, size)
        steps = tuple(line for line in rank.lines if isinstance(line, StepRecord))
        return RankData(0, headers=(rank.lines[0],), steps=steps)

    assert growth_of(data(*(GIB + 3 * MIB * step for step in range(5)))) == 3 * MIB
    assert growth_of(data(1, GIB, GIB, GIB, GIB)) == 0
    assert growth_of(data(1, GIB, 2 * GIB, GIB, 3 * GIB)) == 0
    assert growth_of(data(1, GIB, 2 * GIB, 3 * GIB)) is None
    assert growth_of(data(1, GIB, GIB + 512, GIB + 1024, GIB + 1536)) == 0  # a list of losses


def written(tmp_path, *ranks):
    folder = tmp_path / RANKS
    folder.mkdir(exist_ok=True)
    for rank in ranks:
        content = b"".join(msgspec.json.encode(line) + b"\n" for line in rank.lines)
        (folder / f"{rank_name(rank.rank)}.jsonl").write_bytes(content)


def test_progress_waits_for_every_rank(tmp_path):
    progress = Progress(tmp_path)
    progress.look()
    assert not progress.reached(Goal(2))
    first, second = Rank(0, 2).step(0), Rank(1, 2).step(0)
    written(tmp_path, first.step(1))
    progress.look()
    assert not progress.reached(Goal(2)), "rank 1 has not come"
    written(tmp_path, second)
    progress.look()
    assert not progress.reached(Goal(2))
    written(tmp_path, second.step(1))
    progress.look()
    assert (progress.out_of_memory, progress.reached(Goal(2))) == (False, True)
    written(tmp_path, first.oom(Phase.FORWARD, 2, 1, 1).end("oom"))
    progress.look()
    assert (progress.out_of_memory, progress.reached(Goal(2))) == (True, False)


def test_an_evaluation_has_passed_when_something_else_follows(tmp_path):
    rank = Rank().step(0).step(1)
    rank.phase(Phase.EVAL, 2, GIB).phase(Phase.EVAL, 2, GIB)  # two pieces of one evaluation
    written(tmp_path, rank)
    progress = Progress(tmp_path)
    progress.look()
    assert not progress.reached(Goal(0, Phase.EVAL))
    rank.phase(Phase.FORWARD, 2, GIB)
    written(tmp_path, rank)
    progress.look()
    assert progress.reached(Goal(0, Phase.EVAL))
    assert not progress.reached(Goal(0, Phase.EVAL, times=2))
    assert progress.times("eval") == 1


def test_goals():
    assert goal_after("forward", 0, 0) == Goal(2)
    assert goal_after("backward", 5, 0) == Goal(7)
    assert goal_after("eval", 100, 1) == Goal(2, Phase.EVAL, 2)
    assert goal_after("", None, 0) == Goal(2)
    assert goal_after("", 20, 0).end, "what failed after steps that fitted is no part of a step"
    assert goal_named("eval") == Goal(0, Phase.EVAL)
    assert goal_named("step:20") == Goal(20)
    assert goal_named("end").end
    from oomph.errors import UsageError

    with pytest.raises(UsageError, match="step:N"):
        goal_named("never")
