"""Choices that fit the card and the machine's RAM: arithmetic over Llama-3.2-1B on eight ranks.

Its 1,235,814,400 fp32 weights are 4.6 GiB. Eight copies while loading are 36.8 GiB, one is 4.6. On the host,
parameters, gradients and two states of all ranks together are 16 bytes a weight: 18.4 GiB, and more where pinned memory
is rounded up to powers of two, at most twice as much for the half that is pinned: 27.6.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.api import plan
from oomph.job.model import Job
from oomph.remedy.changes.meta_load import MetaLoad
from oomph.remedy.changes.offload_parameters import OffloadParameters
from oomph.remedy.search import FitResult, fit
from oomph.units import GIB


@pytest.fixture(scope="module")
def base() -> Job:
    settings = {"parallel.strategy": "fsdp2_full", "batch.micro": 1, "batch.sequence": 512}
    settings["checkpointing.mode"] = "full"
    job = plan("meta-llama/Llama-3.2-1B", gpu="8xh100", settings=settings, replay=False).job
    return replace(job, loss="fused_linear_ce")


def searched(base: Job, host_bytes: int) -> FitResult:
    """With a card between what the job needs and what it needs when all is on the host."""
    least = plan(OffloadParameters().apply(base), replay=False)
    most = plan(base, replay=False)
    between = (least.worst.peak.high_bytes + most.worst.peak.low_bytes) // 2
    hardware = replace(base.hardware, gpu="", capacity_bytes=between, host_bytes=host_bytes)
    return fit(replace(base, hardware=hardware), headroom=0.0)


def test_where_only_loading_is_short_one_copy_is_loaded(base):
    found = searched(base, 30 * GIB)
    assert found.choices
    for choice in found.choices[:3]:
        assert isinstance(choice.changes[-1], MetaLoad)
    assert not found.starving


def test_with_enough_ram_nothing_is_added(base):
    found = searched(base, 64 * GIB)
    assert found.choices
    assert not any(isinstance(each, MetaLoad) for each in found.choices[0].changes)


def test_what_the_machine_cannot_hold_while_training_is_no_choice_and_is_said(base):
    found = searched(base, 16 * GIB)
    offloaded = [each for each in found.starving if OffloadParameters() in each.changes]
    assert offloaded
    assert not any(OffloadParameters() in each.changes for each in found.choices)
