"""A traced stretch of Python: everything between entering and leaving runs on simulated devices."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from oomph.tracing.kernels.rule import RuleSet
from oomph.tracing.model import Trace
from oomph.tracing.patching import Patches
from oomph.tracing.recorder import recorder as recorders
from oomph.tracing.recorder.recorder import Recorder
from oomph.tracing.settings import TraceSettings


class Session:
    """Context manager. `rules` is the kernel memory model, None for all rules. After the block, `trace()` is what
    happened; the recorder can be asked during it.

    Raises UsageError where fake CUDA devices cannot work (see `device.arm`).
    """

    def __init__(self, settings: TraceSettings, rules: RuleSet | None = None) -> None:
        self.settings = settings
        self._rules = rules
        self._stack = ExitStack()
        self._began = 0.0
        self._seconds = 0.0
        self.recorder: Recorder | None = None

    def __enter__(self) -> Session:
        from oomph.tracing.device.arm import arm

        arm()
        with ExitStack() as stack:
            patches = stack.enter_context(Patches())
            self.recorder = self._start(stack, patches)
            self._stack = stack.pop_all()
        self._began = time.perf_counter()
        return self

    def _start(self, stack: ExitStack, patches: Patches) -> Recorder:
        from torch._subclasses.fake_tensor import FakeTensorMode

        from oomph.tracing.installing import install_all
        from oomph.tracing.kernels.registry import all_rules
        from oomph.tracing.recorder.mode import make_mode

        recorder = Recorder(self.settings, patches, all_rules() if self._rules is None else self._rules)
        fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        # Entering once lets torch prepare what it needs for fake devices.
        with fake_mode:
            pass
        mode = make_mode(recorder, fake_mode)
        install_all(recorder, mode, fake_mode)
        recorders.enter(recorder)
        stack.callback(recorders.leave, recorder)
        stack.enter_context(mode)
        return recorder

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._seconds = time.perf_counter() - self._began
        if self.recorder is not None:
            self.recorder.stopped()
        self._stack.close()
        return isinstance(error, recorders.TraceEnd)

    def trace(self, **more: Any) -> Trace:
        """What was recorded so far. `more` are further fields of Trace (`failed`)."""
        from oomph.tracing.result import trace_of

        assert self.recorder is not None, "the session was not entered"
        return trace_of(self.recorder, self._seconds, **more)
