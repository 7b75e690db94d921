"""The garbage collector rests while a snapshot is read, and only then."""

from __future__ import annotations

import gc
import pickle

import pytest

from oomph.errors import InputError
from oomph.evidence.snapshot import from_bytes, unpickle
from oomph.evidence.snapshot.unpickle import without_collector
from tests.evidence.snapshot.build import snapshot


def test_it_collects_again_afterwards():
    assert gc.isenabled()
    from_bytes(pickle.dumps(snapshot()), "run.pickle")
    assert gc.isenabled()
    with pytest.raises(InputError):
        from_bytes(b"nothing", "run.pickle")
    assert gc.isenabled()


def test_who_had_switched_it_off_keeps_it_off():
    with without_collector():
        assert not gc.isenabled()
        from_bytes(pickle.dumps(snapshot()), "run.pickle")
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_rests_while_objects_are_made(monkeypatch):
    seen = []

    class Watching(unpickle._PlainUnpickler):
        def load(self):
            seen.append(gc.isenabled())
            return super().load()

    monkeypatch.setattr(unpickle, "_PlainUnpickler", Watching)
    from_bytes(pickle.dumps(snapshot()), "run.pickle")
    assert seen == [False]
