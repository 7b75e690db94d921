"""Where the steps of a trace end: what a script does after its last finished step is no step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

_PHASES = tuple(Phase)
_TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def steps_end(analysis: Analysis) -> int:
    """The position before which steps end. Of a trace that is where its last finished step was done, or, where a
    request of a later step failed, its end; of any other recording, the end."""
    columns, traced = analysis.exact, analysis.snapshot.traced
    end = len(analysis.timeline)
    if columns is None or traced is None or not traced.steps_done:
        return end
    done = int(np.searchsorted(columns.step, traced.steps_done))
    fatal = fatal_oom(analysis.timeline)
    if fatal is not None and fatal >= done and _PHASES[int(analysis.event_phase[fatal])] in _TRAINING:
        return end
    return done


def event_steps(analysis: Analysis) -> NDArray[np.int64]:
    """The step (from 0) of each event; -1 before the first one and after the last."""
    end = steps_end(analysis)
    found = analysis.step_of(np.arange(len(analysis.timeline))).astype(np.int64)
    found[end:] = -1
    return found
