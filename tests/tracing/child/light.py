"""A session without torch: the recorder alone, and the suppression where a test wants it."""

from __future__ import annotations

import os

from oomph.tracing.kernels.rule import RuleSet
from oomph.tracing.model import Trace
from oomph.tracing.patching import Patches
from oomph.tracing.recorder import recorder as recorders


class LightSession:
    def __init__(self, settings):
        self.settings = settings
        self.patches = Patches()
        self.recorder = recorders.Recorder(settings, self.patches, RuleSet())

    def __enter__(self):
        recorders.enter(self.recorder)
        if os.environ.get("LIGHT_SUPPRESS"):
            from oomph.tracing import suppress

            suppress.install(self.recorder)
        return self

    def __exit__(self, *_):
        self.patches.undo()
        recorders.leave(self.recorder)

    def trace(self, **more):
        return Trace(
            rank=0,
            world=1,
            gpu=self.settings.gpu.name,
            torch="2.13",
            installed_torch="none",
            devices=(),
            capacity_bytes=None,
            allocator="",
            steps_done=self.recorder.steps_done,
            operators=self.recorder.operators,
            seconds=0.0,
            suppressed=tuple(self.recorder.suppressed),
            notes=tuple(self.recorder.notes),
            **more,
        )
