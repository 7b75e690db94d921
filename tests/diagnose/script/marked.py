"""Scripts whose comments say what is to be found in which line: `# SCR105`, or `# SCR105 SCR106`."""

from __future__ import annotations

import re
import textwrap

from oomph.diagnose.machine.model import CheckFinding
from oomph.diagnose.script.engine import check_scripts
from oomph.diagnose.script.fix import Fixed, fixed

_MARK = re.compile(r"#((?: SCR\d{3})+)")


def findings(tmp_path, text: str, name: str = "train.py") -> tuple[CheckFinding, ...]:
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return check_scripts([path]).findings


def found(tmp_path, text: str, only: str = "SCR") -> list[tuple[int, str]]:
    """Line and code of every finding of the codes that begin with `only`."""
    return sorted(
        (one.problem.evidence[0].line, one.code)
        for one in findings(tmp_path, text)
        if one.code.startswith(only)
    )


def marked(text: str) -> list[tuple[int, str]]:
    """Line and code of every mark."""
    return sorted(
        (number, code)
        for number, line in enumerate(textwrap.dedent(text).splitlines(), 1)
        for match in [_MARK.search(line)]
        if match is not None
        for code in match[1].split()
    )


def fix_of(tmp_path, text: str) -> Fixed:
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))
    scripts = check_scripts([path])
    return fixed(scripts.read[0], scripts.findings)
