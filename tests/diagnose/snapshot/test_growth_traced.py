"""What is said of growth in a trace, which knows its steps."""

from __future__ import annotations

import pickle

import pytest

from oomph.diagnose.snapshot.build import analyse
from oomph.diagnose.snapshot.growth import growth_of
from oomph.diagnose.snapshot.model import Growth
from oomph.evidence.snapshot import from_bytes
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.tracing.write import content
from oomph.units import MIB
from tests.tracing.made import Maker, one_more_step, training


def growth(maker: Maker) -> Growth:
    snapshot = from_bytes(pickle.dumps(content(maker.trace()), protocol=4), "trace.pickle")
    return growth_of(analyse(snapshot)[0], None)


def ended(maker: Maker) -> Maker:
    """The script ends: a little is asked for in what looks like another forward, and the optimizer goes."""
    maker.phase = Phase.FORWARD
    maker.alloc("loss", MIB, Category.TEMPORARIES)
    maker.free("loss", *(name for name in list(maker.blocks) if name.startswith("exp_avg")))
    return maker


def test_three_steps_and_an_end_tell_no_growth() -> None:
    found = growth(ended(training(Maker())))
    assert found.says == "Growth from step to step cannot be told: the trace has 3 steps, too few."
    assert found.longest_step is None


def test_what_the_first_step_left_is_what_the_last_step_still_holds() -> None:
    """Adam's states of 100 MiB of weights are 200 MiB, which the end of the script frees."""
    found = growth(ended(training(Maker(), steps=4)))
    assert found.steps == 4
    assert found.first_step_bytes == 200 * MIB
    assert found.says == (
        "Nothing grows over the 4 steps of the trace. The first step left 200.00 MiB for good (200.00 MiB optimizer "
        "state); later steps did not."
    )


def test_a_step_that_needs_more_is_no_longer_batch() -> None:
    maker = training(Maker(), steps=4)
    one_more_step(maker, 4, activation=400 * MIB)
    found = growth(maker)
    assert found.longest_step == 4
    # What usually is allocated at once: see made.training.
    assert found.usual_peak_bytes == (100 + 200 + 200 + 30 + 60) * MIB
    assert "batch" not in found.says
    assert found.says.startswith(
        "Nothing grows over the 5 steps of the trace. Step 4 has a peak of 1.16 GiB where 590.00 MiB is usual: "
        "allocated within the step, not growth."
    )


def test_a_list_that_grows_is_told_though_the_script_empties_it_at_its_end() -> None:
    maker = training(Maker(), steps=1)
    for step in range(1, 6):
        maker.phase = Phase.FORWARD
        maker.alloc(f"kept{step}", 4 * MIB, Category.TEMPORARIES, line=77)
        one_more_step(maker, step)
    maker.phase = Phase.FORWARD
    maker.alloc("loss", MIB, Category.TEMPORARIES)
    maker.free("loss", *(f"kept{step}" for step in range(1, 6)))
    found = growth(maker)
    assert found.bytes_per_step == 4 * MIB


def test_a_request_that_fails_after_the_last_step_is_no_step() -> None:
    maker = training(Maker(capacity=1024 * MIB), steps=4)
    maker.phase = Phase.EVAL
    with pytest.raises(DeviceOutOfMemory):
        maker.alloc("logits", 2048 * MIB, Category.TEMPORARIES)
    found = growth(maker)
    assert found.steps == 4
    assert found.says.startswith("Nothing grows over the 4 steps of the trace.")
    assert "did not fit" not in found.says
