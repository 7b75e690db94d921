"""Scripts and configurations to findings: every check looks at every file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oomph.diagnose.machine.model import CheckFinding, CouldNotTell, Told
from oomph.diagnose.script.base import ScriptCheck
from oomph.diagnose.script.checks import all_script_checks
from oomph.diagnose.script.model import Scripts
from oomph.evidence.environment.model import Variable
from oomph.evidence.script.read import read_script
from oomph.evidence.script.source import Config, Script
from oomph.evidence.script.variables import variables_of


def check_scripts(
    paths: Sequence[str | Path], *, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> Scripts:
    """Reads and checks; `select` and `ignore` are code prefixes ("SCR1"). Findings are ordered by file and line.

    Raises InputError for a file that cannot be read or parsed.
    """
    findings: list[CheckFinding] = []
    untold: list[Told] = []
    variables: list[Variable] = []
    sources: list[tuple[str, str]] = []
    read: list[Script] = []
    for path in dict.fromkeys(str(path) for path in paths):
        script = read_script(path)
        if isinstance(script, Script):
            read.append(script)
            variables += variables_of(script)
            sources.append((script.source, "notebook" if script.places else "Python script"))
        else:
            sources.append((script.source, "configuration"))
        of_file: list[CheckFinding] = []
        for check in all_script_checks():
            if (select and not check.code.startswith(tuple(select))) or check.code.startswith(tuple(ignore)):
                continue
            for answer in _asked(check, script):
                if isinstance(answer, CheckFinding):
                    of_file.append(answer)
                else:
                    untold.append(answer)
        of_file.sort(key=lambda one: (one.problem.evidence[0].line if one.problem.evidence else 0, one.code))
        findings += of_file
    return Scripts(tuple(findings), tuple(untold), tuple(variables), tuple(sources), tuple(read))


def _asked(check: ScriptCheck, script: Script | Config) -> list[CheckFinding | Told]:
    try:
        found = list(check.check(script) if isinstance(script, Script) else check.check_config(script))
    except RecursionError:
        found = [CouldNotTell(f"{script.source} is nested too deep to be followed")]
    return [
        Told(check.code, check.cause, check.name, "could not tell", answer.why)
        if isinstance(answer, CouldNotTell)
        else CheckFinding(check.code, check.cause, check.name, answer)
        for answer in found
    ]
