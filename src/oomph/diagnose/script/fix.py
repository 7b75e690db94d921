"""Safe fixes: the edits of findings, applied to the text and looked at again."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import libcst as cst

from oomph.diagnose.machine.model import CheckFinding
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script


@dataclass(frozen=True)
class Fixed:
    """A script with its safe fixes in it. `codes` are the findings that were mended, with their lines; `left` those
    with a fix that was not applied, with the reason."""

    script: Script
    text: str
    codes: tuple[tuple[str, int], ...]
    left: tuple[tuple[str, int, str], ...]

    @property
    def diff(self) -> str:
        """A unified diff, "" where nothing changes."""
        before = self.script.text.splitlines(keepends=True)
        after = self.text.splitlines(keepends=True)
        name = self.script.source.lstrip("/")
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
        )


def fixed(script: Script, findings: Sequence[CheckFinding]) -> Fixed:
    """Applies every edit of this script's findings (of others' none) that does not overlap one before it. What no
    longer parses is not applied at all."""
    edits: list[Edit] = []
    codes: list[tuple[str, int]] = []
    left: list[tuple[str, int, str]] = []
    for one in findings:
        problem = one.problem
        if problem.evidence and problem.evidence[0].source.split(" cell ")[0] != script.source:
            continue
        if not isinstance(problem, ScriptProblem) or not problem.edits:
            continue
        line = problem.evidence[0].line if problem.evidence else 0
        if not script.encoding.startswith("utf-8"):
            left.append((one.code, line, "only UTF-8 files are changed: change it by hand"))
        elif script.places:
            left.append((one.code, line, "notebooks are not changed: change the cell by hand"))
        elif any([_overlaps(edit, edits) for edit in problem.edits]):
            left.append((one.code, line, "it overlaps another fix: run it once more"))
        else:
            edits += [edit for edit in problem.edits if edit not in edits]
            codes.append((one.code, line))
    text = _applied(script.text, edits)
    try:
        cst.parse_module(text.encode())
    except (cst.ParserSyntaxError, RecursionError):
        left += [(code, line, "the changed script would not parse") for code, line in codes]
        return Fixed(script, script.text, (), tuple(left))
    return Fixed(script, text, tuple(codes), tuple(left))


def _overlaps(edit: Edit, others: Iterable[Edit]) -> bool:
    return any(
        [
            edit != one
            and edit.start < max(one.end, one.start + 1)
            and one.start < max(edit.end, edit.start + 1)
            for one in others
        ]
    )


def _applied(text: str, edits: Iterable[Edit]) -> str:
    data = text.encode()
    for edit in sorted(edits, reverse=True):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return data.decode()
