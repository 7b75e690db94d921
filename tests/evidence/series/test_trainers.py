"""torchtitan, torchtune, Megatron, fairseq, LitGPT and the libraries whose keys say what a number is."""

import pytest

from tests.evidence.series.text import GIB, MIB, figures, gib, samples


def test_torchtitan_step_line():
    (one,) = samples(
        "[titan] 2024-12-12 00:47:42,346 - root - INFO - step: 10  loss:  7.7815  memory: 10.55GiB(13.32%)  "
        "tps: 1,234  mfu: 12.34%"
    )
    assert (one.what, one.value.bytes, one.step, one.printer) == (
        "max_reserved",
        gib(10.55),
        10,
        "torchtitan",
    )


def test_torchtitan_model_line():
    assert figures("[titan] - root - INFO - CUDA memory usage for model: 4.46GiB(4.70%)") == [
        ("max_reserved", gib(4.46))
    ]


def test_torchtitan_capacity_is_no_sample():
    assert figures("CUDA capacity: NVIDIA H100 (0) with 94.99GiB memory") == []


def test_torchtune_metrics():
    line = (
        "Step 12 | loss:1.2033 lr:3e-05 tokens_per_second_per_gpu:1204.5 peak_memory_active:12.5 "
        "peak_memory_alloc:12.25 peak_memory_reserved:13.0"
    )
    assert figures(line) == [("max_allocated", gib(12.25)), ("max_reserved", 13 * GIB)]
    assert {one.step for one in samples(line)} == {12}


def test_torchtune_report():
    report = (
        "INFO:torchtune.utils._logging:Memory stats after model init:\n"
        "\tGPU peak memory allocation: 2.33 GiB\n\tGPU peak memory reserved: 2.34 GiB\n"
        "\tGPU peak memory active: 2.33 GiB"
    )
    assert figures(report) == [("max_allocated", gib(2.33)), ("max_reserved", gib(2.34))]


def test_megatron_report():
    found = samples(
        "[Rank 24] (after 20 iterations) memory (MB) | allocated: 3035.5 | max allocated: 3869.25 "
        "| reserved: 4020.0 | max reserved: 4020.0"
    )
    assert [(one.what, one.value.bytes) for one in found] == [
        ("allocated", round(3035.5 * MIB)),
        ("max_allocated", round(3869.25 * MIB)),
        ("reserved", 4020 * MIB),
        ("max_reserved", 4020 * MIB),
    ]
    assert {(one.rank, one.step) for one in found} == {(24, 20)}


def test_megatron_two_ranks_on_one_line():
    found = samples(
        "[Rank 4] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 3.0 "
        "| max reserved: 4.0[Rank 0] (after 1 iterations) memory (MB) | allocated: 5.0 | max allocated: 6.0 "
        "| reserved: 7.0 | max reserved: 8.0"
    )
    assert [(one.rank, one.value.bytes // MIB) for one in found] == [
        (4, 1), (4, 2), (4, 3), (4, 4), (0, 5), (0, 6), (0, 7), (0, 8),
    ]  # fmt: skip


def test_megatron_theory_is_an_estimate():
    assert figures("Theoretical memory footprints: weight and optimizer=20029.52 MB, activation=1.0 MB") == []


def test_fairseq_needs_the_total():
    log = (
        "2021-01-01 10:00:00 | INFO | fairseq.utils | rank   0: capabilities =  7.0  ; "
        "total memory = 31.75 GB ; name = Tesla V100\n"
        "2021-01-01 10:10:00 | INFO | train_inner | epoch 001:    100 / 5000 loss=13.1, num_updates=100, "
        "lr=1.2e-05, gb_free=12.5, wall=61"
    )
    (one,) = samples(log)
    assert (one.what, one.value.bytes, one.step) == ("max_allocated", gib(31.75 - 12.5), 100)
    assert samples(log.split("\n")[1]) == []


def test_litgpt_counts_in_decimal_gb():
    (one,) = samples("Training time: 312.22s\nMemory used: 21.30 GB")
    assert (one.what, one.value.bytes, one.printer) == ("max_allocated", 21_300_000_000, "litgpt")


def test_memory_used_of_an_unknown_program_stays_open():
    (one,) = samples("GPU Memory used: 21.30 GB")
    assert one.what == "used"
    assert one.value.low_bytes <= 21_300_000_000 <= one.value.high_bytes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            (
                "{'loss': '0.71', 'memory/max_active (GiB)': '2.5', 'memory/max_allocated (GiB)': '2.25', "
                "'memory/device_reserved (GiB)': '4.5', 'epoch': '0.13'}"
            ),
            [("max_allocated", gib(2.25)), ("max_reserved", gib(4.5))],
        ),
        (
            (
                "{'loss': 0.1, 'memory/max_mem_active(gib)': 14.5, 'memory/max_mem_allocated(gib)': 14.5, "
                "'memory/device_mem_reserved(gib)': 14.75}"
            ),
            [("max_allocated", gib(14.5)), ("max_reserved", gib(14.75))],
        ),
        ("\t Train memory/peak_reserved_mem: 3.2317", [("max_reserved", 3_231_700_000)]),
        (
            (
                "step:2 - perf/max_memory_allocated_gb:39.5 - perf/max_memory_reserved_gb:43.25 - "
                "perf/cpu_memory_used_gb:65.5 - actor/lr:1e-06"
            ),
            [("max_allocated", gib(39.5)), ("max_reserved", gib(43.25)), ("host_used", gib(65.5))],
        ),
        ("{'loss': 1.82, 'memory(GiB)': 16.75, 'global_step': 1}", [("max_reserved", gib(16.75))]),
        ("    gpu_memory/GPU reserved mem (GiB)=71.5", [("max_reserved", gib(71.5))]),
        (
            (
                "{'DeviceStatsMonitor.on_train_batch_start/allocated_bytes.all.peak': 1234567168.0, "
                "'DeviceStatsMonitor.on_train_batch_start/reserved_bytes.all.current': 2097152}"
            ),
            [("max_allocated", 1_234_567_168), ("reserved", 2_097_152)],
        ),
        ("memory/max_reserved(GiB): 10.5  memory/max_reserved(%): 13.3", [("max_reserved", gib(10.5))]),
    ],
)
def test_keys_that_say_what_they_count(line, expected):
    assert figures(line) == expected


def test_keys_without_a_number():
    assert figures("plot memory/max_reserved(GiB) against perf/max_memory_allocated_gb") == []
