"""Warnings in a recording: said once for the run, and written down."""

from __future__ import annotations

import time

import torch

from oomph.evidence.run.model import Note
from oomph.phases import Phase
from oomph.recording.forecast import claim, sizes_of
from tests.recording.devices import MIB, FakeDevice


def run_steps(run, device, lengths):
    for length in lengths:
        with run.phase("forward", batch={"input_ids": torch.ones(2, length)}):
            device.take(length * MIB)
        with run.phase("backward"):
            device.give(length * MIB)
        with run.phase("optimizer"):
            pass
        run.step_done()


def notes(run) -> list[Note]:
    return [one for one in run.writer.held if isinstance(one, Note)]


def test_the_longest_batch_is_warned_of_once(record, capfd):
    device = FakeDevice(capacity_bytes=1000 * MIB)
    with record(device=device, longest=2000) as run:
        run_steps(run, device, [10, 20, 30, 40, 50])
        assert run.forecast is not None
        run.forecast.look()
        run.forecast.look()
        run_steps(run, device, [60])
        run.forecast.look()
    (note,) = [one for one in notes(run) if one.code == "warning.batch"]
    assert note.numbers["high_bytes"] >= 2000 * MIB - 10
    assert capfd.readouterr().err.count("may run out of memory later") == 1


def test_another_rank_has_said_it(record, capfd, tmp_path):
    device = FakeDevice(capacity_bytes=1000 * MIB)
    with record(device=device, longest=2000) as run:
        assert claim(run, "warning.batch")  # some other rank
        run_steps(run, device, [10, 20, 30, 40, 50])
        assert run.forecast is not None
        run.forecast.look()
    assert [one.code for one in notes(run)] == ["warning.batch"]
    assert "may run out" not in capfd.readouterr().err


def test_nothing_is_warned_of_after_it_has_happened_or_where_it_fits(record):
    device = FakeDevice(capacity_bytes=100_000 * MIB)
    with record(device=device, longest=2000, evaluation=64) as run:
        run_steps(run, device, [10, 20, 30, 40, 50])
        assert run.forecast is not None
        run.forecast.look()
        assert notes(run) == []
        with run.phase("eval"):
            pass
        assert Phase.EVAL in run.phases.occurred
        device.capacity_bytes = 100 * MIB
        run.phases.card = device.whole()
        run.forecast.longest = 0
        run_steps(run, device, [50])
        run.forecast.look()
        assert [one.code for one in notes(run)] == []


def test_a_guess_counts_only_where_lengths_differ(record):
    for lengths, expected in (([50] * 5, []), ([10, 20, 30, 40, 50], ["warning.batch"])):
        device = FakeDevice(capacity_bytes=200 * MIB)
        with record(device=device) as run:
            assert run.forecast is not None
            run.forecast.guess_longest(400, "a tokenizer")
            run_steps(run, device, lengths)
            run.forecast.look()
        assert [one.code for one in notes(run)] == expected


def test_the_recorders_own_thread_looks(record):
    device = FakeDevice(capacity_bytes=1000 * MIB)
    with record(device=device, longest=2000) as run:
        run_steps(run, device, [10, 20, 30, 40, 50])
        until = time.monotonic() + 20
        while not notes(run) and time.monotonic() < until:
            time.sleep(0.05)
    assert [one.code for one in notes(run)] == ["warning.batch"]


def test_sizes_of_models():
    net = torch.nn.Linear(4, 2)
    net.bias.requires_grad_(False)
    # 4 x 2 weights and 2 biases of four bytes
    assert sizes_of(net) == (40, 40, 32)
    assert sizes_of([net, net]) == (40, 40, 32)
    assert sizes_of({"a": net}) == (40, 40, 32)
    assert sizes_of(None) == (0, 0, 0)
    assert sizes_of(torch.nn.LazyLinear(3)) == (0, 0, 0)
