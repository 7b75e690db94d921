"""What is kept of a search, and that it goes on from there."""

from __future__ import annotations

import json
import os

import pytest

from oomph.errors import InputError, UsageError
from oomph.trial.bisect import Bisection
from oomph.trial.command import Template
from oomph.trial.engine import Finished
from oomph.trial.goal import Goal
from oomph.trial.model import Limits, TrialOutcome, TrialResult
from oomph.trial.params import parse_params
from oomph.trial.protocol import Verdict
from oomph.trial.state import State, folder_named, key_of, name_of

SEARCH = {"command": ["python", "my train.py"], "variables": []}


def result(number, batch, outcome=TrialOutcome.OOM):
    return TrialResult(number, {"batch": batch}, outcome, "why")


def test_results_are_there_again(tmp_path):
    with State(tmp_path / "s", SEARCH) as state:
        assert state.next_folder() == (1, tmp_path / "s" / "trial-001")
        state.add(result(1, 8))
        state.add(result(2, 4, TrialOutcome.CANCELLED))
    with State(tmp_path / "s", SEARCH) as state:
        assert state.results_for({"batch": 8}) == [result(1, 8)]
        assert state.results_for({"batch": 4}) == [], "what was cancelled says nothing"
        assert state.next_folder()[0] == 3


def test_a_torn_line_costs_itself(tmp_path):
    with State(tmp_path / "s", SEARCH) as state:
        state.add(result(1, 8))
    path = tmp_path / "s" / "trials.jsonl"
    path.write_bytes(path.read_bytes() + b'{"number": 2, "sett')
    with State(tmp_path / "s", SEARCH) as state:
        assert len(state.results) == 1
        state.add(result(2, 4))
    with State(tmp_path / "s", SEARCH) as state:
        assert [one.number for one in state.results] == [1, 2]


def test_another_search_has_another_name_and_is_refused_in_the_same_folder(tmp_path):
    other = {**SEARCH, "command": ["python", "other.py"]}
    assert key_of(SEARCH) != key_of(other)
    assert name_of(SEARCH["command"], SEARCH).startswith("my-train-")
    with State(tmp_path / "s", SEARCH) as state:
        state.add(result(1, 8))
    with pytest.raises(UsageError, match=r"another search \(python my train.py\)"):
        State(tmp_path / "s", other)
    with State(tmp_path / "s", other, fresh=True) as state:
        assert state.results == []


def test_one_at_a_time(tmp_path):
    with State(tmp_path / "s", SEARCH), pytest.raises(UsageError, match="goes on in another process"):
        State(tmp_path / "s", SEARCH)
    State(tmp_path / "s", SEARCH).close()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "a" * 200])
def test_names(tmp_path, name):
    with pytest.raises(UsageError):
        folder_named(tmp_path, name)


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    with State(tmp_path / "s", SEARCH) as state:
        state.add(result(1, 8))

        def full(*_):
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"No space left on device.*the same command goes on"):
            state.add(result(2, 4))
    monkeypatch.undo()
    with State(tmp_path / "s", SEARCH) as state:
        assert state.results[0] == result(1, 8)


class Engine:
    """Ends every task at once. `stop` interrupts the trial of that number."""

    name, slots = "fake", 1

    def __init__(self, stop=None):
        self.stop, self.started, self.cancelled, self._ended = stop, [], [], []

    def start(self, task):
        self.started.append(task)
        self._ended = [Finished(task, 0)]

    def finished(self, timeout):
        if self.stop == len(self.started) and not self.cancelled:
            raise KeyboardInterrupt
        ended, self._ended = self._ended, []
        return ended

    def cancel(self, task):
        self.cancelled.append(task.name)
        self._ended = [Finished(task, None, "cancelled")]

    def close(self):
        pass


class Way:
    """Trials of which the command's last word says the batch: from 4 on memory runs out."""

    def __init__(self, accidents=0, first=None):
        self.accidents, self.first, self.goals = accidents, first, []

    def command(self, command, folder, goal=None):
        self.goals.append(goal)
        return ("wrapped", *command)

    def watch(self, folder, goal):
        self.goal, self.reached = goal, False
        return self

    def look(self):
        return False

    def steps(self):
        return None

    def times(self, folder, phase):
        return 0

    def read(self, finished, number, setting, watch):
        if self.accidents and setting["batch"] == 1:
            self.accidents -= 1
            return TrialResult(number, setting, TrialOutcome.COMMUNICATION, "NCCL")
        if self.first is not None and setting["batch"] == 8:
            return TrialResult(number, setting, self.first, "a limit")
        fits = int(finished.task.command[-1]) < 4
        outcome = TrialOutcome.FITS if fits else TrialOutcome.OOM
        return TrialResult(number, setting, outcome, "", phase="" if fits else "eval", step=0)


def searched(tmp_path, engine, way, *, until=None):
    template = Template(("train", "{trial}", "{batch}"), parse_params(["batch=8:1"]), {}, tmp_path)
    with State(tmp_path / "s", SEARCH) as state:
        return Bisection(template, engine, way, state, until=until).run()


def test_an_interrupted_trial_is_ended_and_run_again(tmp_path):
    engine = Engine(stop=2)
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path, engine, Way())
    assert engine.cancelled == ["trial-002"]
    lines = (tmp_path / "s" / "trials.jsonl").read_text().splitlines()
    assert [json.loads(line)["setting"]["batch"] for line in lines] == [8]
    again = Engine()
    found, trials = searched(tmp_path, again, Way())
    assert found.setting == {"batch": 3}
    assert [task.command[-1] for task in again.started] == [str(one.setting["batch"]) for one in trials[1:]]
    third = Engine()
    assert searched(tmp_path, third, Way())[0] == found
    assert third.started == []


@pytest.mark.parametrize("outcome", [TrialOutcome.HUNG, TrialOutcome.DISK, TrialOutcome.HOST_OOM])
def test_what_a_limit_ended_is_run_again_with_another_limit(tmp_path, outcome):
    """The advice is to give more: the same command with more does not meet the old answer."""
    template = Template(("train", "{batch}"), parse_params(["batch=8:1"]), {}, tmp_path)
    way = Way(first=outcome)

    def run(limits):
        engine = Engine()
        with State(tmp_path / "s", SEARCH) as state:
            found, _ = Bisection(template, engine, way, state, limits=limits).run()
        return found.verdict, len(engine.started)

    assert run(Limits(seconds=2.0)) == (Verdict.UNKNOWN, 1)
    assert run(Limits(seconds=2.0)) == (Verdict.UNKNOWN, 0)
    way.first = None
    assert run(Limits(seconds=60.0)) == (Verdict.CAUSE, 5)
    assert run(Limits(seconds=90.0)) == (Verdict.CAUSE, 0), "what no limit ended is kept"


def test_a_search_of_another_version_is_refused(tmp_path):
    State(tmp_path / "s", SEARCH).close()
    path = tmp_path / "s" / "search.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(UsageError, match=r"another version of oomph.*--fresh"):
        State(tmp_path / "s", SEARCH)
    State(tmp_path / "s", SEARCH, fresh=True).close()


@pytest.mark.parametrize("damage", [b"\xff\xfe\x00", b"[" * 200_000, b'{"number": "one"}'])
def test_a_damaged_line_costs_itself(tmp_path, damage):
    with State(tmp_path / "s", SEARCH) as state:
        state.add(result(1, 8))
    path = tmp_path / "s" / "trials.jsonl"
    path.write_bytes(damage + b"\n" + path.read_bytes())
    with State(tmp_path / "s", SEARCH) as state:
        assert state.results == [result(1, 8)]
    (tmp_path / "s" / "search.json").write_bytes(damage)
    with pytest.raises(UsageError, match="--fresh"):
        State(tmp_path / "s", SEARCH)


def test_goals_of_trials(tmp_path):
    """The first runs until it fails; it fails in its first evaluation, which the others have to pass."""
    way = Way()
    searched(tmp_path, Engine(), way)
    assert way.goals[0].end
    assert {str(goal) for goal in way.goals[1:]} == {"optimizer step 2 and eval"}
    way = Way()
    (tmp_path / "o").mkdir()
    searched(tmp_path / "o", Engine(), way, until=Goal(20))
    assert set(way.goals) == {Goal(20)}


def test_an_accident_is_tried_once_more_and_its_place_is_kept(tmp_path):
    engine = Engine()
    found, trials = searched(tmp_path, engine, Way(accidents=1))
    assert [one.outcome.value for one in trials[:3]] == ["oom", "communication", "fits"]
    assert found.setting == {"batch": 3}
    assert engine.started[0].command == ("wrapped", "train", str(tmp_path / "s" / "trial-001"), "8")
    assert engine.started[0].environment["OOMPH_RUN_DIR"] == ""
