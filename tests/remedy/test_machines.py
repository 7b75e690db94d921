"""Machines compared: only those with a card that is named, in fp16 where a card has no bf16, and with room for NCCL."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.hardware.names import gpu
from oomph.hardware.outside import available_bytes
from oomph.remedy.machines import compare_machines
from oomph.report.plan.search_words import machine_notes
from tests.remedy.jobs import EIGHT, GIB, ONE


def needs(job):
    if job.precision.compute == "bf16" and gpu(job.hardware.gpu).capability < (8, 0):
        raise UsageError("no bf16")
    return GIB


def test_only_the_card_that_is_named():
    found = compare_machines(EIGHT, ("gcp", "aws"), predictor=needs, gpu="a100-80gb")
    assert {each.machine.gpu for each in found} == {"a100-80gb"}
    with pytest.raises(UsageError, match="No machine type of gcp with a whole rtx-4090"):
        compare_machines(EIGHT, ("gcp",), predictor=needs, gpu="rtx-4090")


def test_a_card_without_bf16_runs_fp16_where_nobody_chose():
    chosen = compare_machines(ONE, ("gcp",), predictor=needs, gpu="t4")
    assert {each.refused for each in chosen} == {"no bf16"}
    found = compare_machines(ONE, ("gcp",), predictor=needs, gpu="t4", any_half=True)
    assert not any(each.refused for each in found)
    assert {each.job.precision.compute for each in found} == {"fp16"}
    assert any("Planned in fp16 there" in note and "t4" in note for note in machine_notes(found))
    newer = compare_machines(ONE, ("gcp",), predictor=needs, gpu="l4", any_half=True)
    assert {each.job.precision.compute for each in newer} == {"bf16"}


def test_several_gpus_leave_room_for_nccl():
    found = compare_machines(ONE, ("gcp",), 0.0, predictor=needs, gpu="a100-80gb")
    card = available_bytes(gpu("a100-80gb")).low_bytes
    # a communicator takes up to 1.45 GiB once it has worked (stas00/ml-engineering)
    expected = {1: card, 2: card - int(1.45 * GIB)}
    assert {each.machine.count: each.capacity_bytes for each in found if each.machine.count < 3} == expected


def test_what_only_padding_makes_too_much_may_fit():
    def padded_takes_more(job):
        return 10 * GIB if job.batch.padding == "off" else 60 * GIB

    (first, *_) = compare_machines(ONE, ("gcp",), 0.0, predictor=padded_takes_more, gpu="a100-40gb")
    assert first.fits is None
    said = replace(ONE, batch=replace(ONE.batch, padding="longest"))
    (first, *_) = compare_machines(said, ("gcp",), 0.0, predictor=padded_takes_more, gpu="a100-40gb")
    assert first.fits is False
