"""A model with 953,223,168 parameters, counted by hand from its dimensions."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env501_host_ram import HostRam
from oomph.job.model import Batch, Dimension, Hardware, Job, Model, Parallel, Precision
from oomph.units import GIB
from tests.diagnose.machine.built import ERROR, clear, environment, host, launch, not_here, problem, untold

#: Llama's shapes: embedding and head 32000 x 2048 each, 16 layers, of each 4 x 2048 x 2048 for attention,
#: 3 x 2048 x 5632 for the MLP and two norms of 2048, and a norm at the end.
PARAMETERS = 2 * 32000 * 2048 + 16 * (4 * 2048 * 2048 + 3 * 2048 * 5632 + 2 * 2048) + 2048
MODEL = Model(
    family="llama",
    config=tuple(
        Dimension(key=key, value=value)
        for key, value in sorted(
            {
                "vocab_size": 32000,
                "hidden_size": 2048,
                "intermediate_size": 5632,
                "num_hidden_layers": 16,
                "num_attention_heads": 16,
                "num_key_value_heads": 16,
                "tie_word_embeddings": False,
                "max_position_embeddings": 2048,
            }.items()
        )
    ),
)


def job(ranks: int) -> Job:
    return Job(
        model=MODEL,
        precision=Precision(weights="fp32"),
        batch=Batch(micro=1, sequence=128),
        parallel=Parallel(strategy="fsdp1_full_shard" if ranks > 1 else "none", data=ranks),
        hardware=Hardware(gpu="a100-40gb", gpus=ranks, per_node=ranks),
    )


def test_a_copy_of_each_rank() -> None:
    """fp32: 4 bytes x parameters x 8 ranks = 30,503,141,376 = 28.4 GiB: between 28 and 29 GiB the answer changes."""
    need = 8 * 4 * PARAMETERS
    assert 28 * GIB < need < 29 * GIB
    found = problem(HostRam, environment(host=host(ram_bytes=28 * GIB)), job=job(8))
    assert found.severity is ERROR
    assert found.numbers["load_bytes"] == need
    assert "a copy for each of 8 ranks" in found.says
    assert "28.41 GiB" in clear(HostRam, environment(host=host(ram_bytes=29 * GIB)), job=job(8))


def test_the_lowest_limit_counts() -> None:
    made = environment(host=host(ram_bytes=512 * GIB), launches=(launch("sbatch", memory_bytes=16 * GIB),))
    found = problem(HostRam, made, job=job(8))
    assert "memory limit of sbatch" in found.says
    assert found.numbers["limit_bytes"] == 16 * GIB
    group = environment(host=host(ram_bytes=512 * GIB, cgroup_limit_bytes=8 * GIB))
    assert "control group" in problem(HostRam, group, job=job(8)).says


def test_one_rank() -> None:
    clear(HostRam, environment(host=host(ram_bytes=4 * GIB)), job=job(1))


def test_nothing_to_compare() -> None:
    assert not_here(HostRam, environment(host=host(ram_bytes=4 * GIB)))
    untold(HostRam, environment(), job=job(1))
    untold(HostRam, environment(host=host(ram_bytes=4 * GIB)), job=Job())
