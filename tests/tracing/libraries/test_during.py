"""Wrapped functions that somebody took by name."""

from __future__ import annotations

import types
from typing import Any

from oomph.tracing.libraries import during
from oomph.tracing.patching import Patches
from oomph.tracing.recorder import recorder as recorders


def test_a_function_taken_by_name_is_itself_again_after_the_trace() -> None:
    recorder: Any = types.SimpleNamespace(patches=Patches())
    module = types.ModuleType("module")

    def plain(number: int) -> int:
        return number

    module.double = plain  # type: ignore[attr-defined]
    with recorder.patches:
        during.wrap(recorder, module, "double", lambda original, number: original(number) + 1)
        taken = module.double
        assert taken(1) == 1  # this recorder's trace does not run yet
        recorders.enter(recorder)
        assert taken(1) == 2
        recorders.leave(recorder)
    assert module.double is plain
    assert taken(1) == 1
