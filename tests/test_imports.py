"""What importing costs, and who may import whom."""

from __future__ import annotations

import subprocess
import sys

import pytest
from importlinter.cli import lint_imports

#: None of these may be loaded by a command that does not need it.
HEAVY = (
    "torch",
    "rich",
    "jinja2",
    "numpy",
    "plotly",
    "msgspec",
    "zstandard",
    "ahocorasick_rs",
    "oomph.evidence",
)


def modules_after(code: str, tmp_path) -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after `code`."""
    program = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        *([name, "--help"] for name in ("explain", "snapshot", "plan", "trace", "verify", "runs", "doctor")),
        ["completion", "zsh"],
    ],
)
def test_help_imports_nothing_heavy(tmp_path, arguments):
    loaded = modules_after(f"from oomph.cli.main import cli; cli({arguments!r})", tmp_path)
    assert "oomph.cli.main" in loaded
    assert sorted(loaded.intersection(HEAVY)) == []


def test_importing_the_package_imports_nothing_else_of_it(tmp_path):
    loaded = modules_after("import oomph", tmp_path)
    assert {name for name in loaded if name.startswith("oomph")} == {"oomph"}
    assert "click" not in loaded


def test_the_library_does_not_import_the_command_line(tmp_path):
    loaded = modules_after("import oomph; oomph.explain; oomph.snapshot; oomph.trace", tmp_path)
    assert "oomph.api" in loaded
    assert {name for name in loaded if name.startswith("oomph.cli")} == set()
    assert sorted(loaded & {"click", "torch", "numpy", "rich"}) == []


def test_the_house_holds(root, monkeypatch, capsys):
    """The contracts of [tool.importlinter] in pyproject.toml."""
    monkeypatch.chdir(root)
    code = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert code == 0, capsys.readouterr().out
