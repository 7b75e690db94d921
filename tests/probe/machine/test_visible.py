"""Every case is a sentence of the CUDA programming guide, "CUDA Environment Variables", or an example from it."""

from __future__ import annotations

import os

import pytest

from oomph.probe.machine import visible
from oomph.probe.model import Gpu, Process
from oomph.probe.shares import of

GIB = 1 << 30
ALIKE = tuple(Gpu(index, f"GPU-{index}{index}{index}{index}-aaaa", "A100", 80 * GIB) for index in range(4))
MIXED = (Gpu(0, "GPU-00", "RTX 3060", 12 * GIB), Gpu(1, "GPU-11", "RTX 4090", 24 * GIB))


def seen(text, gpus=ALIKE, **environment):
    found = visible(gpus, environment if text is None else {"CUDA_VISIBLE_DEVICES": text, **environment})
    return [one.index for one in found.gpus], found.certain


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2,1", [2, 1]),
        ("0,2,-1,1", [0, 2]),
        ("3, 0", [3, 0]),
        ("0,9,1", [0]),
        ("-1", []),
        ("none", []),
        ("2ampere,1", [2, 1]),
        ("0,0", []),
        ("GPU-2222", [2]),
        ("GPU-2222-aaaa,GPU-0", [2, 0]),
        ("GPU-2222,GPU-9,GPU-0", [2]),
        ("GPU-", []),
        ("GPU-1,GPU-1", []),
        ("GPU-1,0", [1]),
    ],
)
def test_what_cuda_visible_devices_means(text, indices):
    assert seen(text) == (indices, True)


def test_the_fastest_comes_first_unless_told_otherwise():
    assert seen(None, MIXED) == ([0, 1], False)
    assert seen("1", MIXED) == ([1], False)
    assert seen("1", MIXED, CUDA_DEVICE_ORDER="PCI_BUS_ID") == ([1], True)
    assert seen("GPU-11", MIXED) == ([1], True)


def test_mig():
    cut = (
        Gpu(0, "MIG-aaaa", "A100 MIG 3g.40gb", 40 * GIB),
        Gpu(0, "MIG-bbbb", "A100 MIG 4g.40gb", 40 * GIB),
    )
    assert visible(cut, {}).gpus == (cut[0],)
    assert visible(cut, {"CUDA_VISIBLE_DEVICES": "MIG-b"}).gpus == (cut[1],)
    assert visible(cut, {"CUDA_VISIBLE_DEVICES": "0"}).certain is False
    assert visible((*cut, *ALIKE), {}).certain is False


def test_why_a_list_ends():
    assert "GPU-9 is no GPU here" in visible(ALIKE, {"CUDA_VISIBLE_DEVICES": "GPU-9"}).why
    assert "several" in visible(ALIKE, {"CUDA_VISIBLE_DEVICES": "GPU-"}).why


def test_shares_of_a_card(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    own = Process(os.getpid(), 12 * GIB, ours=True)
    card = Gpu(0, "GPU-x", "A100", 80 * GIB, processes=(own, Process(1, 3 * GIB), Process(2, GIB)))
    found = of((card,), "GPU-x", 0, 11 * GIB)
    assert (found.outside_bytes, found.others_bytes, found.why) == (GIB, 4 * GIB, "")
    assert of((card,), "x", 3, 11 * GIB).outside_bytes == GIB
    # Without a UUID, by what the process sees.
    assert of((card,), "", 0, 11 * GIB).outside_bytes == GIB
    assert "could not be told" in of((card,), "", 1, 0).why
    silent = Gpu(0, "GPU-x", processes=(own, Process(1, None)))
    assert of((silent,), "GPU-x", 0, 0).others_bytes is None
    assert of((silent,), "GPU-x", 0, 0).outside_bytes == 12 * GIB
    hidden = Gpu(0, "GPU-x", missing="nobody is listed")
    assert of((hidden,), "GPU-x", 0, 0).why == "nobody is listed"
    assert of((card,), "GPU-x", 0, 13 * GIB).outside_bytes is None
