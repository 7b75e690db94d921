"""A request that failed, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oomph.diagnose.snapshot.model import Failure, Verdict
from oomph.diagnose.snapshot.pins import pins_of
from oomph.diagnose.snapshot.scene import scene_at
from oomph.diagnose.snapshot.verdicts import decide, ruled_out
from oomph.memory.holes import holes
from oomph.memory.timeline import Kind

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: After a failure that ended the job, a handler may still allocate a little; so many allocations are a job that goes
#: on. One as large as what failed is too.
_GOES_ON = 10


def failure_at(analysis: Analysis, position: int) -> Failure:
    """The failed request of the out-of-memory event at `position`."""
    layout = analysis.layout if analysis.moment.position == position else analysis.layout_at(position)
    every = holes(layout)
    scene = scene_at(analysis, position, layout, every)
    verdict, certainty, says = decide(scene)
    stream, pool, small = scene.list
    own = [hole for hole in every if (hole.stream, hole.pool, hole.small) == scene.list]
    return Failure(
        position=position,
        verdict=verdict,
        certainty=certainty,
        says=says,
        request_bytes=scene.request,
        segment_bytes=scene.segment,
        pool=pool,
        stream=stream,
        small=small,
        hole_bytes=scene.hole,
        cached_own_bytes=scene.own,
        cached_bytes=scene.cached,
        free_bytes=scene.free,
        reserved_bytes=scene.reserved,
        allocated_bytes=scene.allocated,
        available_bytes=scene.available,
        short_by_bytes=scene.short,
        frames=analysis.frames(analysis.timeline.stack_of(position)),
        pins=pins_of(analysis, position, layout, own) if verdict is Verdict.FRAGMENTED else (),
        outside_growth_bytes=scene.outside_growth or None,
        ruled_out=tuple(ruled_out(scene, verdict)),
        caught=_went_on(analysis, position),
        simulated=analysis.exact is not None,
    )


def _went_on(analysis: Analysis, position: int) -> bool:
    timeline = analysis.timeline
    later = timeline.kind[position + 1 :] == Kind.ALLOC
    if int(np.count_nonzero(later)) >= _GOES_ON:
        return True
    sizes = timeline.size_bytes[position + 1 :][later]
    return bool(len(sizes)) and int(sizes.max()) >= int(timeline.size_bytes[position])
