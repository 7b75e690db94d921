"""Real torchrun, real DDP, real FSDP2 over gloo: every rank has a card of its own, and the numbers are arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

F = 4
WIDTH, LAYERS, BATCH, RANKS = 256, 4, 8, 2
LAYER = (WIDTH * WIDTH + WIDTH) * F  # weight and bias, both multiples of 512 bytes, halves of them too
PARAMETERS = LAYERS * LAYER
INPUTS = BATCH * WIDTH * F


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no distributed package")
    folder = tmp_path_factory.mktemp("ranks")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)),
            *(str(Path(__file__).with_name("worker.py")), str(folder)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def test_ddp_has_buckets_beside_the_gradients(ranks):
    for rank in ranks:
        seen = rank["ddp"]
        assert seen["made"][0] == PARAMETERS
        # The buckets; and gloo's thread may still hold the buffer in which the weights were sent.
        assert 2 * PARAMETERS <= seen["wrapped"][0] <= 3 * PARAMETERS
        after = seen["backward"][0]
        assert 3 * PARAMETERS + INPUTS <= after <= 4 * PARAMETERS + INPUTS + 8 * 512


def test_fsdp_holds_a_part_and_gathers_the_rest(ranks):
    for rank in ranks:
        seen = rank["fsdp"]
        part = PARAMETERS // RANKS
        small = (LAYERS + 1) * 2 * 512  # meshes, counters
        assert part <= seen["sharded"][0] <= part + small
        forward, backward = seen["forward"], seen["backward"]
        # One gathered layer at the least, and the buffer that it is gathered in; never all of them twice.
        assert part + INPUTS + 2 * LAYER <= forward[1] < part + PARAMETERS
        assert backward[0] >= 2 * part + INPUTS
        # gloo's thread may hold its last buffer until the next one comes.
        assert backward[0] <= 2 * part + INPUTS + small + 2 * LAYER


def test_one_rank_alone_runs_out(ranks):
    assert "failed" not in ranks[0]
    assert ranks[1]["failed"].startswith(
        "CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total "
    )
    assert ranks[1]["ooms"] == 1
