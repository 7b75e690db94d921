"""`torch.cuda` answered from the simulation: one module per family.

Most of it is torch's own Python code, which runs on functions of `torch._C` that only a CUDA build has: those are
given. What has no answer is refused by name (`refusals`).
"""

from __future__ import annotations

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Answers the whole of `torch.cuda` and `torch.accelerator` until the recorder's patches are undone."""
    from oomph.tracing.device.answers import (
        accelerator,
        graphs,
        history,
        host,
        legacy,
        markers,
        memory,
        monitor,
        pools,
        properties,
        random,
        refusals,
        streams,
    )
    from oomph.tracing.device.answers.state import State

    state = State(recorder)
    for family in (
        properties,
        memory,
        pools,
        history,
        streams,
        random,
        graphs,
        markers,
        monitor,
        legacy,
        host,
        accelerator,
        refusals,
    ):
        family.install(state)
