"""What memory was for: each block's category, phase and step, against what the generator built."""

from __future__ import annotations

from collections import Counter

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.analysis import Analysis
from oomph.evidence.snapshot import from_bytes
from oomph.memory.categories import CATEGORIES
from oomph.phases import Phase
from tests.snapshots.answers import answer
from tests.snapshots.frames import STYLES, Line
from tests.snapshots.job import OTHER
from tests.snapshots.scenarios import full, growth, training
from tests.snapshots.written import Made

CERTAINTIES = tuple(Certainty)
PHASES = tuple(Phase)
JOBS = {name: way for name, way in training.DYING.items() if name != "overlapping_streams"} | {
    "batch_too_large": full.batch_too_large,
    "workspaces": training.workspaces,
}


def wrong_bytes(made: Made, at: str | None = None) -> tuple[Counter[Certainty], int]:
    """Bytes of blocks in use at the moment whose category is wrong, by how surely it was told, and all bytes. What is
    called unknown is not wrong, nor is anything about what the generator itself calls so."""
    snapshot = from_bytes(made.pickled("2.13"), "synthetic.pickle")
    analysis = Analysis(snapshot, made.device.options.index, at)
    alive = made.device.alive_at(analysis.moment.position)
    assert sorted(alive) == sorted(analysis.lifetimes.address[analysis.alive].tolist())
    wrong: Counter[Certainty] = Counter()
    for row in analysis.alive.tolist():
        tensor = alive[int(analysis.lifetimes.address[row])]
        told = CATEGORIES[int(analysis.block_category[row])].value
        if tensor.category != OTHER and told not in (tensor.category, "unknown"):
            wrong[CERTAINTIES[int(analysis.block_certainty[row])]] += tensor.size_bytes
    return wrong, sum(tensor.size_bytes for tensor in alive.values())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", JOBS)
def test_what_is_called_sure_is_right(name: str, style: str):
    for seed in range(2):
        wrong, total = wrong_bytes(JOBS[name](seed, style))
        assert not wrong[Certainty.CERTAIN]
        assert wrong[Certainty.LIKELY] <= total // 100
        # Without C++ frames one size can be two things, and that is then called possible.
        assert style != "all" or not wrong[Certainty.POSSIBLE]


@pytest.mark.parametrize("at", ["peak-allocated", "peak-reserved", "start", "end"])
@pytest.mark.parametrize("style", ["all", "python"])
def test_at_other_moments_too(style: str, at: str):
    for way in (growth.steady, growth.evaluates, growth.varying_lengths):
        wrong, total = wrong_bytes(way(2, style).roomy(), at)
        assert not wrong[Certainty.CERTAIN]
        assert wrong[Certainty.LIKELY] <= total // 100


@pytest.mark.parametrize("name", JOBS)
def test_with_all_frames_the_sums_by_category_are_exact(name: str):
    """But for the batch, of which the generator does not say what it is."""
    for seed in range(2):
        made = JOBS[name](seed, "all")
        report = answer(made)
        device = report.devices[report.shown]
        alive = made.device.alive_at(device.moment.position)
        truth: Counter[str] = Counter()
        for tensor in alive.values():
            truth[tensor.category] += tensor.size_bytes
        free_to_choose = truth.pop(OTHER, 0)
        told = Counter({share.category.value: share.bytes for share in device.shares})
        for category in {*truth, *told} - {"unknown"}:
            assert 0 <= told[category] - truth[category] <= free_to_choose, category
        assert sum(told.values()) == sum(tensor.size_bytes for tensor in alive.values())


@pytest.mark.parametrize("seed", range(2))
def test_workspaces_by_thread_and_stream(seed: int):
    made = training.workspaces(seed, "all")
    shares = answer(made).devices[0].shares
    (share,) = [share for share in shares if share.category.value == "workspace"]
    assert share.bytes == made.truth.categories["workspace"]
    assert share.blocks == 5


@pytest.mark.parametrize("style", ["all", "python"])
@pytest.mark.parametrize("name", training.DYING)
def test_the_failure_has_its_phase_and_its_line(name: str, style: str):
    made = training.DYING[name](1, style)
    failed = made.truth.failed
    assert failed is not None
    report = answer(made)
    moment = report.devices[report.shown].moment
    assert moment.phase.value == failed.phase
    assert moment.position == failed.position
    where = {(frame.file, frame.line) for frame in moment.frames}
    assert failed.line is None or failed.line in where


@pytest.mark.parametrize("style", ["all", "python"])
def test_each_request_has_its_phase(style: str):
    """But for the batch on its way to the device, which belongs to no phase."""
    for way in (growth.steady, growth.evaluates):
        made = way(3, style).roomy()
        snapshot = from_bytes(made.pickled("2.13"), "synthetic.pickle")
        told = Analysis(snapshot, 0).event_phase
        for place, tensor in made.device.made.items():
            if tensor.category != OTHER:
                assert PHASES[int(told[place])].value == tensor.phase


@pytest.mark.parametrize("style", ["all", "python"])
@pytest.mark.parametrize("name", JOBS)
def test_holders_have_their_lines_and_bytes(name: str, style: str):
    made = JOBS[name](2, style)
    report = answer(made)
    device = report.devices[report.shown]
    truth: Counter[Line | None] = Counter()
    for tensor in made.device.alive_at(device.moment.position).values():
        truth[tensor.line] += tensor.size_bytes
    told: Counter[Line | None] = Counter()
    for holder in device.holders:
        place = holder.place
        told[None if place is None else (place.file, place.line)] += holder.bytes
    assert told == truth
    assert sum(told.values()) == device.ledger.allocated_bytes
