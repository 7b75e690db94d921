"""Every recorded script and configuration is checked as `oomph doctor --script` does it: the codes and their lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPTS = ROOT / "tests" / "data" / "scripts"
#: Path, and what is expected of it: each code with the line where it stands.
RECORDED = [
    (SCRIPTS / kind / name, sorted((entry["code"], entry["line"]) for entry in entries))
    for kind in ("faulty", "clean")
    for name, entries in json.loads((SCRIPTS / kind / "expected.json").read_text(encoding="utf-8")).items()
]


@pytest.mark.parametrize(
    ("path", "expected"), RECORDED, ids=[f"{path.parent.name}/{path.name}" for path, _ in RECORDED]
)
def test_a_recorded_script(path: Path, expected: list[tuple[str, int]]) -> None:
    from oomph.diagnose.script.engine import check_scripts

    found = [(one.code, one.problem.evidence[0].line) for one in check_scripts([path]).findings]
    assert sorted(found) == expected
