from __future__ import annotations

import pickle

import pytest
from click.testing import CliRunner, Result

from oomph.cli.main import cli
from tests.cli.fakes import FakeEngine
from tests.cli.snapshots import job


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """The command line with a fake engine behind it."""
    fake = FakeEngine()
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `oomph ARGS` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def invoke(*args: str, stdin: str | bytes | None = None, **kwargs) -> Result:
        return CliRunner().invoke(cli, list(args), input=stdin, prog_name="oomph", **kwargs)

    return invoke


@pytest.fixture
def files(tmp_path):
    """Snapshots in the current folder."""
    contents = {
        "oom.pickle": job(),
        "fine.pickle": job(fails=False),
        "more.pickle": job(fails=False, blocks=6),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(pickle.dumps(content))
    return tmp_path
