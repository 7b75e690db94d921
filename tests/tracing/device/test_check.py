"""Trying a torch: what goes wrong in the other process becomes a sentence here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from types import SimpleNamespace

import pytest

from oomph.errors import UsageError
from oomph.tracing.device import check as checks


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "torch"
    package.mkdir()
    (package / "version.py").write_text("__version__ = '2.13.0'")
    spec = SimpleNamespace(origin=str(package / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    return tmp_path / "cache"


def ends(monkeypatch, code, stdout="", stderr=""):
    calls = []

    def run(command, **options):
        calls.append(command)
        return subprocess.CompletedProcess(command, code, stdout, stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_success_is_remembered_for_this_build_alone(cache, monkeypatch, tmp_path):
    calls = ends(monkeypatch, 0)
    checks.check()
    checks.check()
    assert len(calls) == 1
    (found,) = (cache / "oomph").iterdir()
    assert json.loads(found.read_text())["works"] is True
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.14.0+cu130'")
    checks.check()
    assert len(calls) == 2


def test_a_crash_is_a_sentence_and_is_tried_again(cache, monkeypatch):
    calls = ends(monkeypatch, -11)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"crashed \(SIGSEGV\)"):
            checks.check()
    assert len(calls) == 2
    assert not (cache / "oomph").exists()


def test_a_failure_gives_its_last_line(cache, monkeypatch):
    ends(monkeypatch, 1, stderr="Traceback ...\nRuntimeError: no such thing\n\n")
    with pytest.raises(UsageError, match=r"failed \(RuntimeError: no such thing\)"):
        checks.check()


def test_a_refusal_is_passed_on(cache, monkeypatch):
    ends(monkeypatch, 3, stdout="Tracing works on Linux.\n")
    with pytest.raises(UsageError, match=r"^Tracing works on Linux\.$"):
        checks.check()


def test_no_torch_is_a_sentence(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="there is none"):
        checks.check()


def test_a_process_that_hangs_is_a_sentence(cache, monkeypatch):
    def run(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(UsageError, match="took more than 300 s"):
        checks.check()


def test_a_cache_that_cannot_be_written_costs_only_time(cache, monkeypatch):
    cache.write_text("a file where the folder should be")
    calls = ends(monkeypatch, 0)
    checks.check()
    checks.check()
    assert len(calls) == 2


def test_a_damaged_memory_is_not_believed(cache, monkeypatch):
    calls = ends(monkeypatch, 0)
    checks.check()
    (found,) = (cache / "oomph").iterdir()
    for text in ("", "[]", '{"works": "yes"}', "\x00\xff"):
        found.write_text(text)
        checks.check()
    assert len(calls) == 5


def test_the_installed_torch_works(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="tracing needs PyTorch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    checks.check()
    assert len(list((tmp_path / "oomph").iterdir())) == 1
