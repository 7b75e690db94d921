from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from oomph.cli.main import cli
from tests.cli.fakes import FakeEngine


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
