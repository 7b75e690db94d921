"""All that a search came to, as reports show it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.trial.command import Template, unset
from oomph.trial.lines import Line, lines_of
from oomph.trial.model import TrialResult, Value, Variable, shown
from oomph.trial.outcome import CAUGHT
from oomph.trial.protocol import Found, Verdict
from oomph.trial.recommend import Recommended, recommend
from oomph.units import format_bytes

#: A desktop and its like hold less.
_NEIGHBOUR_BYTES = 1 << 30
_ONE_POINT = "fewer than two values of it were measured whole"


@dataclass(frozen=True)
class Answer:
    """The end of a search. `lines`: by variable, of each phase. `exit_code`: 0 the cause is isolated, or the setting as
    given passes; 1 it is not isolated."""

    command: tuple[str, ...]
    engine: str
    folder: str
    variables: tuple[Variable, ...]
    found: Found
    trials: tuple[TrialResult, ...]
    lines: Mapping[str, tuple[Line, ...]]
    recommended: Recommended | None
    not_tested: tuple[str, ...]
    notes: tuple[str, ...]
    next_commands: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """As the command returns it."""
        isolated = (Verdict.CAUSE, Verdict.TOGETHER, Verdict.LEAK, Verdict.PASSES)
        return 0 if self.found.verdict in isolated else 1


def answer_of(
    template: Template,
    found: Found,
    trials: Sequence[TrialResult],
    *,
    engine: str,
    folder: Path,
    headroom: float,
    notes: Sequence[str] = (),
    trace_options: Sequence[str] = (),
) -> Answer:
    """The answer of a search that has ended. `trace_options`: what traces were asked for, with that engine."""
    recommended = recommend(found, template.variables, trials, headroom)
    lines = {one.name: lines_of(trials, one) for one in template.variables}
    return Answer(
        command=template.command,
        engine=engine,
        folder=str(folder),
        variables=template.variables,
        found=found,
        trials=tuple(trials),
        lines={name: each for name, each in lines.items() if each},
        recommended=recommended,
        not_tested=tuple(_not_tested(template, found, trials, lines)),
        notes=(*notes, *found.notes, *_by_output(trials), *_files(template, recommended)),
        next_commands=_next_commands(template, found, recommended, trials, engine, trace_options),
    )


def _not_tested(
    template: Template, found: Found, trials: Sequence[TrialResult], lines: Mapping[str, Sequence[Line]]
) -> list[str]:
    """What the answer does not rest on, a sentence each."""
    said = []
    varied = {
        one.name for one in template.variables if len({str(trial.setting[one.name]) for trial in trials}) > 1
    }
    for one in template.variables:
        if one.name not in varied and varied:
            said.append(
                f"{one.name} stayed at {shown(one.values[0])} in every trial: whether it matters, too, is not tested."
            )
        elif one.name in found.causes and not lines[one.name] and _is_number(one):
            said.append(f"Bytes for each unit of {one.name} are not known: {_ONE_POINT}.")
    for limit in found.limits:
        if limit.known and limit.fails is not None:
            values = next(one.values for one in template.variables if one.name == limit.variable)
            if limit.largest in values and limit.fails in values:
                between = values.index(limit.largest) - values.index(limit.fails)
                if between == 1 and _gap(limit.largest, limit.fails):
                    said.append(
                        f"Between {limit.variable}={limit.largest} and {limit.fails} nothing was tried."
                    )
    passed = {peak.phase for trial in trials for peak in trial.peaks}
    if found.setting is not None and passed and found.verdict is not Verdict.PASSES:
        missing = [phase for phase in ("eval", "save") if phase not in passed]
        if missing:
            said.append(
                f"No trial came to {' or '.join(missing)}: trials end when the phase in question has passed (--until "
                f"{missing[0]} goes on)."
            )
    return said


def _is_number(variable: Variable) -> bool:
    return all(isinstance(value, (int, float)) for value in variable.values)


def _gap(one: Value, other: Value) -> bool:
    return isinstance(one, int) and isinstance(other, int) and other - one > 1


def _by_output(trials: Sequence[TrialResult]) -> list[str]:
    """That the answer rests on less than records."""
    said = []
    blind = [one for one in trials if one.outcome.tells and one.known_by in ("output", "exit code")]
    if blind:
        numbers = ", ".join(str(one.number) for one in blind[:8])
        said.append(
            f"Trials {numbers} recorded nothing that decides (no PyTorch, or a Python without oomph): how they ended "
            "is known by what they printed and by their exit codes only."
        )
    others = max((one.other_processes_bytes or 0 for one in trials), default=0)
    if others >= _NEIGHBOUR_BYTES:
        said.append(
            f"Other processes held {format_bytes(others)} of the card during the trials: without them more would fit. "
            "`oomph doctor` names them."
        )
    caught = [one for one in trials if one.why.endswith(CAUGHT)]
    if caught:
        numbers = ", ".join(str(one.number) for one in caught[:8])
        said.append(
            f"Trials {numbers} ran out of memory on the way, caught it and went on (with a smaller batch, or without "
            "one): they fit only with that."
        )
    return said


def _files(template: Template, recommended: Recommended | None) -> list[str]:
    """What of the recommended setting is to be written into files: trials had copies."""
    if recommended is None:
        return []
    return [
        f"Set {one.name} to {recommended.setting[one.name]} in {one.target.rpartition(':')[0]} before the next "
        "command: the trials had copies of the file."
        for one in template.variables
        if one.kind == "file" and recommended.setting[one.name] != one.values[0]
    ]


def _next_commands(
    template: Template,
    found: Found,
    recommended: Recommended | None,
    trials: Sequence[TrialResult],
    engine: str,
    trace_options: Sequence[str],
) -> tuple[str, ...]:
    """What to run next: the recommended setting, recorded, and its check; of a failure, its explanation."""
    if recommended is not None:
        words, environment = _shown(template, recommended.setting)
        gone = " ".join(f"-u {name}" for name in unset(template.variables, recommended.setting))
        before = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items() if value)
        if gone:
            before = f"env {gone} {before}".strip()
        if engine == "trace":
            return (f"{before} oomph trace {shlex.join((*trace_options, '--', *words))}".strip(),)
        return (
            f"{before} oomph record --phases -- {shlex.join(words)}".strip(),
            "oomph verify last",
        )
    failed = next((one for one in reversed(trials) if str(one.outcome) == "oom"), None)
    if failed is not None and engine != "trace" and found.verdict is not Verdict.PASSES:
        return (f"oomph explain {shlex.quote(str(Path(failed.directory) / 'run'))}",)
    return ()


def _shown(template: Template, setting: Mapping[str, Value]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command with the setting; of files, the user changes his own."""
    others = tuple(one for one in template.variables if one.kind != "file")
    return Template(template.command, others, template.environment, template.working_directory).made(
        setting, Path()
    )
