"""How a trial is run without a GPU: `oomph trace` of the command, and what its answer says."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from oomph.phases import Phase
from oomph.trial.engine import Finished
from oomph.trial.goal import Goal
from oomph.trial.model import PhasePeak, TrialOutcome, TrialResult, Value
from oomph.trial.outcome import read_trial
from oomph.units import format_bytes

ANSWER = "trace.json"
#: Steps of a trace that is to show training alone.
_STEPS = 3


@dataclass(frozen=True)
class Traced:
    """Trials that are traced, for a card or a capacity as `oomph trace` takes them. `world`: processes (None: as many
    as the command's launcher would start)."""

    gpu: str | None = None
    capacity: str | None = None
    world: int | None = None

    def command(self, command: tuple[str, ...], folder: Path, goal: Goal | None = None) -> tuple[str, ...]:
        """The command that is started."""
        words = [sys.executable, "-m", "oomph", "trace", "--format", "json", "-q", "--no-stacks"]
        words += ["-o", str(folder / ANSWER), "--rank", "distinct"]
        for option, value in (("--gpu", self.gpu), ("--capacity", self.capacity), ("--world", self.world)):
            if value is not None:
                words += [option, str(value)]
        everything = goal is not None and (goal.phase is not None or (goal.end and goal.steps == 0))
        words += ["--steps", "all" if everything else str(max(_STEPS, goal.steps if goal is not None else 0))]
        return (*words, "--", *command)

    def watch(self, folder: Path, goal: Goal) -> Unwatched:
        """A trace ends by itself."""
        del folder
        return Unwatched(goal)

    def times(self, folder: Path, phase: str) -> int:
        """A trace tells no phases apart in time."""
        del folder, phase
        return 0

    def read(
        self, finished: Finished, number: int, setting: Mapping[str, Value], watch: object
    ) -> TrialResult:
        """The result of a trial that has ended."""
        del watch
        base = TrialResult(
            number=number,
            setting=dict(setting),
            outcome=TrialOutcome.CRASHED,
            why="",
            seconds=round(finished.seconds, 3),
            exit_code=finished.exit_code,
            directory=str(finished.task.folder),
        )
        try:
            content = msgspec.json.decode((finished.task.folder / ANSWER).read_bytes())
            return read_answer(base, content)
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            # No answer: stopped, or the script ended by itself before anything was known.
            read = read_trial(finished, number=number, setting=setting)
            said = _refused(finished)
            if said:
                return msgspec.structs.replace(read, outcome=TrialOutcome.CRASHED, why=said)
            if read.outcome is TrialOutcome.FITS:
                why = "the trace left no answer"
                return msgspec.structs.replace(read, outcome=TrialOutcome.CRASHED, why=why)
            return read


@dataclass
class Unwatched:
    """Nothing is to be seen while it runs."""

    goal: Goal
    reached: bool = False

    def look(self) -> bool:
        """Never to be ended early."""
        return False

    def steps(self) -> int | None:
        """Not known before its end."""
        return None


def read_answer(base: TrialResult, content: Mapping[str, Any]) -> TrialResult:
    """The result by the JSON document of `oomph trace`. Raises KeyError, IndexError, TypeError or ValueError for what
    is none."""
    traces = content["traces"]
    failing = [one for one in traces if one["fits"] is False or _out_of_memory(one)]
    shown = failing[0] if failing else traces[0]
    changes: dict[str, Any] = {
        "world_size": shown["world"],
        "step": min(int(one["steps_done"]) for one in traces),
        "capacity_bytes": min(
            (one["capacity_bytes"] for one in traces if one["capacity_bytes"]), default=None
        ),
        "peaks": _peaks(traces),
        "known_by": "trace",
    }
    broken = next(
        (one["failed"] for one in traces if one["failed"] and not one["failed"]["out_of_memory"]), None
    )
    if failing:
        phase = next((d["fails_in"] for d in shown["devices"] if d["fails_in"]), None) or ""
        most = max((d["peak"]["most_bytes"] for d in shown["devices"]), default=0)
        surely = any(d["surely_fails"] for d in shown["devices"]) or _out_of_memory(shown)
        runs = "runs" if surely else "may run"
        where = f" in {phase}" if phase else ""
        who = f"on rank {shown['rank']} " if shown["world"] > 1 else ""
        why = f"traced: {who}memory {runs} out{where}; {format_bytes(most)} at the most"
        changes |= {"outcome": TrialOutcome.OOM, "why": why, "phase": phase, "rank": shown["rank"]}
        changes["peaks"] = tuple(
            msgspec.structs.replace(one, failed=one.failed or one.phase == phase) for one in changes["peaks"]
        )
    elif broken is not None:
        why = f"traced: the script ended with {broken['kind']}: {str(broken['text'])[:200]}"
        changes |= {"outcome": TrialOutcome.CRASHED, "why": why}
    elif any(one["unfinished"] for one in traces) or not all(one["fits"] for one in traces):
        reason = next((one["unfinished"] for one in traces if one["unfinished"]), "")
        if not reason and not any(one["devices"] for one in traces):
            reason = "nothing was allocated on any GPU: the script has to train on cuda, as it would with one"
        changes |= {
            "outcome": TrialOutcome.CRASHED,
            "why": f"traced: {reason or 'whether it fits is not known: no capacity was given'}",
        }
    else:
        changes |= {"outcome": TrialOutcome.FITS, "why": f"traced: {changes['step']} steps fit"}
    result: TrialResult = msgspec.structs.replace(base, **changes)
    return result


def _refused(finished: Finished) -> str:
    """The sentence with which `oomph trace` refused to begin; "" where it did not."""
    if finished.exit_code != 2:
        return ""
    try:
        with (finished.task.folder / "err.txt").open("rb") as file:
            lines = file.read(1 << 16).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line[7:507] for line in lines if line.startswith("oomph: ")), "")


def _out_of_memory(trace: Mapping[str, Any]) -> bool:
    return bool(trace["failed"] and trace["failed"]["out_of_memory"])


def _peaks(traces: list[Mapping[str, Any]]) -> tuple[PhasePeak, ...]:
    found: dict[str, PhasePeak] = {}
    for one in traces:
        for device in one["devices"]:
            for each in device["phases"]:
                name, peak = each["phase"], each["peak"]
                if name not in found or found[name].allocated_bytes < peak["allocated_bytes"]:
                    found[name] = PhasePeak(
                        name, peak["allocated_bytes"], peak["reserved_bytes"], one["rank"]
                    )
    return tuple(found[phase.value] for phase in Phase if phase.value in found and phase is not Phase.UNKNOWN)
