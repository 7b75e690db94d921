"""Recordings of tests: on a device whose numbers the test sets, and ended whatever happens."""

from __future__ import annotations

import pytest

from oomph.recording import api
from tests.recording.devices import FakeDevice


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No launcher's environment, and no recording left over."""
    for name in (
        "OOMPH_RUN_DIR",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "OOMPH_CPU_CAPACITY",
    ):
        monkeypatch.delenv(name, raising=False)
    yield
    current = api.current()
    if current is not None:
        current.end()


@pytest.fixture
def record(tmp_path):
    """`oomph.record()` with a fake device, into tmp_path/run, every step written."""

    def start(**options):
        options.setdefault("device", FakeDevice())
        options.setdefault("run_dir", tmp_path / "run")
        options.setdefault("every", 0)
        return api.record(**options)

    return start
