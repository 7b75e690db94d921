"""What is shipped, and that the checkout's own commands are the ones that are documented."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile

import pytest


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Names of the files in the wheel, built from the checkout without the network."""
    from tests.conftest import ROOT

    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        check=True,
        capture_output=True,
        cwd=ROOT,
        timeout=120,
    )
    (path,) = folder.iterdir()
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_file_of_the_package(wheel, root):
    files = {
        path.relative_to(root / "src").as_posix()
        for path in (root / "src" / "oomph").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "oomph/py.typed" in files
    assert files <= wheel


def test_the_wheel_holds_nothing_else(wheel):
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"oomph"}


def fenced(text: str) -> list[str]:
    """Command blocks of a Markdown text."""
    return [block.strip() for block in re.findall(r"```(?:sh|bash|shell)\n(.*?)```", text, flags=re.DOTALL)]


def test_the_readme_has_two_commands_and_ci_runs_the_second(root):
    commands = fenced((root / "README.md").read_text(encoding="utf-8"))[:2]
    assert len(commands) == 2
    assert "oomph explain examples/" in commands[0]
    script = (root / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert commands[1] in script


def test_ci_run_is_executable(root):
    listed = subprocess.run(
        ["git", "ls-files", "--stage", ".ci/run"], check=False, capture_output=True, text=True, cwd=root
    )
    # Where the checkout is not a git repository (an archive), there is no mode to look at.
    assert listed.stdout == "" or listed.stdout.startswith("100755")
