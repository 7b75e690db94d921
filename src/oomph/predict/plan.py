"""The plan of a job: peaks of every phase on every kind of rank, and whether it fits.

`plan` is what everybody calls; `peak_bytes` is the number alone, for a search over thousands of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oomph.errors import UsageError
from oomph.hardware.outside import available_bytes, context_bytes
from oomph.hardware.tables import context
from oomph.job.model import Job
from oomph.job.resolve import resolve
from oomph.memory.categories import Category
from oomph.memory.prediction import Prediction
from oomph.phases import Phase
from oomph.predict.compose import masks, pieces, supported
from oomph.predict.compose.pipeline import PipelineRank
from oomph.predict.compose.run import compose, gpu_of, setup_of
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.stages import ranks_of
from oomph.predict.compose.stand_in import stand_ins
from oomph.predict.compose.step import Step
from oomph.predict.frameworks import variants
from oomph.predict.frameworks.code import Code
from oomph.predict.host import host_of
from oomph.predict.interval import situation, widen
from oomph.predict.model import Outside, PhasePeak, Plan, RankPlan, Term
from oomph.predict.outside import outside_of
from oomph.predict.peak_sink import PeakSink, SinkPeak
from oomph.predict.sharding import sharded_qlora
from oomph.predict.words import name_of, page_of


def peak_bytes(job: Job) -> int:
    """The highest allocated bytes of any phase under the likeliest code; the job is taken as it is (resolved, checked).
    Raises UsageError as `compose` does."""
    supported.check(job)
    most = 0
    for stage in range(job.parallel.pipeline):
        sink = PeakSink(compose=False)
        compose(setup_of(job, variants(job)[0]), sink, stage=stage)
        most = max(most, *(each.bytes for each in sink.peaks().values()))
    return most


def capacity_of(job: Job) -> int | None:
    """What PyTorch can have on one card, at the least: as the job says, or the card, or what is free of it, less the
    context (which a job that has not started does not have yet)."""
    hardware = job.hardware
    if hardware.capacity_bytes is not None:
        return hardware.capacity_bytes
    gpu = gpu_of(job)
    free = hardware.free_bytes
    if free is not None:
        free = max(0, free - (context() if gpu is None else context_bytes(gpu)).high_bytes)
    if gpu is None:
        return free
    low = available_bytes(gpu).low_bytes
    return low if free is None else min(low, free)


def room_of(job: Job, outside: Outside) -> int | None:
    """What the allocator can have of `capacity_of`: NCCL and libraries take their most, except of a capacity that was
    given for PyTorch alone."""
    capacity = capacity_of(job)
    if capacity is None or job.hardware.capacity_bytes is not None:
        return capacity
    return max(0, capacity - max(0, outside.high_bytes - outside.context_high_bytes))


def plan(job: Job, replay: bool = True) -> Plan:
    """The plan. `replay`: the timeline is played through the simulated allocator, for reserved bytes and the verdict
    with cached memory; without it allocated bytes decide. What is not modelled is named in `unsupported`, and then
    there are no numbers. Raises UsageError for a job that contradicts itself (`job.check`)."""
    job, assumptions = resolve(job)
    try:
        return _planned(job, assumptions, replay)
    except UsageError as error:
        if not str(error).startswith("unsupported"):
            raise
        reason = str(error).partition(":")[2].strip()
        return Plan(job, (), capacity_of(job), None, None, assumptions, (reason,))


def _planned(job: Job, assumptions: tuple[str, ...], replay: bool) -> Plan:
    supported.check(job)
    found = [_rank(job, stage, replay) for stage in range(job.parallel.pipeline)]
    ranks = tuple(rank for rank, _, _, _ in found)
    _, code, step, _ = found[0]
    verdicts = [_verdict(rank, room_of(job, rank.outside), rank.outside) for rank in ranks]
    fits, fails_in = next((each for each in verdicts if each[0] is False), None) or next(
        (each for each in verdicts if each[0] is None), verdicts[0]
    )
    notes = tuple(dict.fromkeys((*code.notes, *stand_ins(step.setup), *step.stepper.assumptions)))
    more = [] if job.framework.name else [f"The training code is taken to be that of {code.label}."]
    peaks = [each.allocated_bytes for rank in ranks for each in rank.phases.values()]
    masked = masks.sentence(job, max(each for _, _, _, each in found), max(peaks, default=0))
    more += [each for each in (masked, step.setup.without_mask) if each]
    more += sharded_qlora.assumptions(job, code.framework)
    largest = max(
        (each.units.units for _, _, each, _ in found),
        key=lambda units: sum(each.resident_bytes for unit in units for each in unit.parameters),
    )
    return Plan(
        job,
        ranks,
        capacity_of(job),
        fits,
        fails_in,
        (*assumptions, *supported.assumptions(job), *more, *notes),
        host=host_of(job, largest),
        parameters=step.setup.architecture.total,
        trainable=_trainable(job, step.setup.architecture.total, [its for _, _, its, _ in found]),
    )


def _trainable(job: Job, total: int, ranks: Sequence[Step | PipelineRank]) -> int:
    """How many parameters train, of the whole model: tensor- and expert-parallel ranks have parts of
    them."""
    if job.method.name == "full" and not job.method.frozen and job.parallel.tensor * job.parallel.expert > 1:
        return total
    units = (unit for its in ranks for unit in its.units.units)
    return sum(each.numel for unit in units for each in unit.parameters if each.trainable)


def _rank(job: Job, stage: int, replay: bool) -> tuple[RankPlan, Code, Step | PipelineRank, int]:
    """The plan of the ranks of one pipeline stage (without pipeline parallelism: of all), and how many bytes a mask for
    attention adds where the job leaves that open."""
    codes = variants(job)
    sinks: list[tuple[Code, PeakSink, Step | PipelineRank]] = []
    for code in codes:
        sink = PeakSink()
        try:
            sinks.append((code, sink, compose(setup_of(job, code), sink, stage=stage)))
        except UsageError:
            if code is codes[0]:
                raise
    first = sinks[0]
    masked = _masked(job, first[0], stage)
    outside = outside_of(job)
    above = _above(first[2].setup)
    allocated = _phases(job, [*sinks, *masked], above, None)
    margin = max(each.high_bytes - each.allocated_bytes for each in allocated.values())
    prediction = _replayed(job, first[0], room_of(job, outside), margin, stage) if replay else None
    phases = _phases(job, [*sinks, *masked], above, prediction) if prediction is not None else allocated
    end = first[1].current_bytes if first[2].end_bytes == 0 else first[2].end_bytes
    each = job.parallel.ranks // job.parallel.pipeline
    name = ranks_of(job, stage)
    more = max((_highest(sink) - _highest(first[1]) for _, sink, _ in masked), default=0)
    return RankPlan(name, stage * each, phases, end, outside, prediction), first[0], first[2], more


def _highest(sink: PeakSink) -> int:
    return max(each.bytes for each in sink.peaks().values())


def _masked(job: Job, code: Code, stage: int) -> list[tuple[Code, PeakSink, Step | PipelineRank]]:
    """The same step with a mask for attention, where the job does not say whether there is one."""
    other = masks.open_job(job)
    if other is None:
        return []
    sink = PeakSink()
    try:
        return [(code, sink, compose(setup_of(other, code), sink, stage=stage))]
    except UsageError:  # without a mask it can be planned
        return []


def _above(setup: Setup) -> dict[Phase, tuple[int, int]]:
    """How far the upper bound of each phase is above its peak, where Inductor's order decides between the two, and how
    far the interval has to reach. Of attention by ordinary operators, whose scores are the largest tensors by far, no
    measurement says that the plain layer is a bound: there the interval reaches half as far again."""
    if setup.job.parallel.expert > 1:
        return _reaching(setup, replace(setup, crowded=True))
    if setup.int8:
        return _reaching(setup, replace(setup, outliers=True))
    if not setup.order_decides:
        return {}
    least, most = PeakSink(compose=False), PeakSink(compose=False)
    compose(setup, least)
    compose(replace(setup, plain_layers=True), most)
    high = most.peaks()
    further = 1.5 if "aten._softmax" in pieces.operators_of(setup, "block") else 1.0
    found = {}
    for phase, peak in least.peaks().items():
        if phase in high:
            more = max(0, high[phase].bytes - peak.bytes)
            found[phase] = (more, int(further * more))
    return found


def _reaching(setup: Setup, other: Setup) -> dict[Phase, tuple[int, int]]:
    """How far each phase's interval has to reach where the data decide: for a rank whose experts are asked for more
    than others, or for inputs with outliers (engine/int8.py)."""
    usual, most = PeakSink(compose=False), PeakSink(compose=False)
    compose(setup, usual)
    compose(other, most)
    least = usual.peaks()
    return {
        phase: (0, max(0, peak.bytes - least[phase].bytes))
        for phase, peak in most.peaks().items()
        if phase in least
    }


def _phases(
    job: Job,
    sinks: list[tuple[Code, PeakSink, Step | PipelineRank]],
    above: dict[Phase, tuple[int, int]],
    prediction: Prediction | None,
) -> dict[Phase, PhasePeak]:
    """The peaks. Between two bounds the middle is predicted, and the interval holds both."""
    where = situation(job)
    known = [sink.peaks() for _, sink, _ in sinks]
    found: dict[Phase, PhasePeak] = {}
    for phase, peak in known[0].items():
        others = [each[phase].bytes for each in known[1:] if phase in each]
        more, most = above.get(phase, (0, 0))
        size = peak.bytes + more // 2
        low, high = widen(size, "allocated", where, (peak.bytes, peak.bytes + most, *others))
        found[phase] = PhasePeak(phase, size, low, high, peak.where, _terms(peak, more // 2))
    if prediction is None:
        return found
    for phase, its in prediction.phases.items():
        if phase not in found:
            continue
        more, most = above.get(phase, (0, 0))
        size = its.reserved_bytes + more // 2
        lowest, highest = widen(
            size, "reserved", where, (its.reserved_low_bytes, its.reserved_high_bytes + most)
        )
        found[phase] = replace(
            found[phase],
            reserved_bytes=size,
            reserved_low_bytes=max(lowest, found[phase].low_bytes),
            reserved_high_bytes=max(highest, found[phase].high_bytes),
        )
    return found


def _terms(peak: SinkPeak, between: int) -> tuple[Term, ...]:
    """What is alive at a peak, the largest first; `between`: half of what lies between two bounds."""
    sizes: dict[tuple[Category, str], int] = {}
    if between:
        sizes[Category.ACTIVATIONS, "compiled layers: half of what Inductor's order may add"] = between
    for (category, name), size in peak.parts.items():
        key = (category, name_of(category, name))
        sizes[key] = sizes.get(key, 0) + size
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    return tuple(
        Term(name, category, size, page_of(category, name)) for (category, name), size in ordered if size
    )


def _replayed(job: Job, code: Code, capacity: int | None, margin: int, stage: int) -> Prediction:
    from oomph.memory.allocator.settings import AllocatorSettings
    from oomph.predict.event_sink import EventSink
    from oomph.predict.replay import played

    sink = EventSink()
    compose(setup_of(job, code), sink, stage=stage)
    settings = AllocatorSettings.parse(job.allocator) if job.allocator else AllocatorSettings()
    return played(sink, settings, capacity, margin_bytes=margin)


def _verdict(rank: RankPlan, room: int | None, outside: Outside) -> tuple[bool | None, Phase | None]:
    """Fits: the upper end does, and every play with that much less memory came to its end. Does not: the lower end of
    what is allocated does not. Everything between may fit or not."""
    if room is None:
        return None, None
    most = room + outside.high_bytes - outside.low_bytes
    surely = [phase for phase, peak in rank.phases.items() if peak.low_bytes > most]
    if surely:
        return False, surely[0]
    open_ = [phase for phase, peak in rank.phases.items() if _upper(peak) > room]
    if open_:
        return None, open_[0]
    if rank.replay is not None and rank.replay.fails_in is not None:
        return None, rank.replay.fails_in
    return True, None


def _upper(peak: PhasePeak) -> int:
    """PyTorch gives cached memory back before it fails, so what is allocated has to fit; fragments come on top."""
    return peak.high_bytes
