"""Cuts of real snapshots, where there are some: each replays as exactly as the whole (tests/conformance)."""

from __future__ import annotations

import pickle
import random

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.evidence.snapshot import allocator_settings, from_bytes, read
from oomph.memory.replay import blind, exact
from oomph.report.exports.exactly import exactly
from oomph.report.exports.smaller import smaller
from oomph.report.exports.window import around_the_moment
from tests.conformance.test_snapshots import FOLDER

#: Without a folder of real snapshots there is nothing to cut.
FILES = [] if FOLDER is None else sorted(FOLDER.glob("*.pickle"))


def windows(analysis: Analysis) -> list[tuple[int, int]]:
    """The default one, and one by chance; the chance is the same in every run."""
    events = len(analysis.timeline)
    chance = random.Random(events)
    first, last = sorted(chance.sample(range(events + 1), 2))
    return [around_the_moment(analysis), (first, last)]


def assert_cuts_replay(file: str, analysis: Analysis) -> None:
    for first, last in windows(analysis):
        case = (file, analysis.index, first, last)
        ends = exactly(analysis, first, last)
        assert ends.first <= first < last <= ends.last, case
        again = from_bytes(pickle.dumps(smaller(analysis, ends)), "cut.pickle")
        device, settings = again.devices[analysis.index], allocator_settings(again)
        assert settings == analysis.settings, case
        assert len(device.timeline) == ends.last - ends.first, case
        result = exact(device.segments, device.timeline, settings)
        assert result.exact, (case, result.misses)
        result = blind(device.segments, device.timeline, settings)
        assert result.sequence_right, (case, result.misses)
        assert result.peak_right, case


def test_every_cut_replays_exactly():
    for path in FILES:
        snapshot = read(path)
        for device in snapshot.devices:
            if len(device.timeline) > 1:
                assert_cuts_replay(path.name, Analysis(snapshot, device.index))
