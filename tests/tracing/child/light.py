"""A session without torch: the recorder alone, and the suppression where a test wants it."""

from __future__ import annotations

import os

from oomph.phases import Phase
from oomph.tracing.model import Trace
from oomph.tracing.patching import Patches
from oomph.tracing.recorder import recorder as recorders


class LightRecorder(recorders.Recorder):
    """What of a recorder needs no torch: phases, steps, ticks and sentences."""

    def __init__(self, settings, patches):
        self.settings = settings
        self.patches = patches
        self.now = [recorders.PHASES.index(Phase.LOAD), 0]
        self.operators = 0
        self.suppressed = {}
        self.assumptions = {}
        self.notes = {}
        self.on_step = []
        self.on_tick = []


class LightSession:
    def __init__(self, settings):
        self.settings = settings
        self.patches = Patches()
        self.recorder = LightRecorder(settings, self.patches)

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
