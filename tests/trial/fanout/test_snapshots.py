"""Memory snapshots that other processes read: the same answer, byte for byte."""

import pickle

import pytest
from click.testing import CliRunner

from oomph.cli.main import cli
from tests.cli.snapshots import job


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in (("a", job()), ("b", job(fails=False)), ("c", job(fails=False, blocks=6))):
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(content))
    (tmp_path / "text.pickle").write_text("step 1\nstep 2\n")
    return tmp_path


def snapshot(*words: str):
    result = CliRunner().invoke(cli, ["snapshot", *words], prog_name="oomph")
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("a.pickle", "b.pickle", "c.pickle"),
        (
            "a.pickle",
            "text.pickle",
            "b.pickle",
            "gone.pickle",
            "--format",
            "json",
            "--no-compare",
            "--what-if",
            "all",
        ),
        ("a.pickle", "b.pickle", "--format", "markdown", "--ignore", "OOM2"),
        ("a.pickle", "b.pickle", "--at", "900"),
        ("text.pickle", "gone.pickle"),
    ],
)
def test_the_command_says_the_same(files, words):
    assert snapshot(*words, "--jobs", "2") == snapshot(*words)


def test_one_snapshot_needs_nobody_else(files):
    assert snapshot("a.pickle", "--jobs", "2") == snapshot("a.pickle")
