"""Memory columns of tables that jobs print or log as CSV."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.lines import build_document
from oomph.evidence.series import parse
from tests.evidence.series.text import GIB, MIB, document, figures, gib, samples


def rows(text: str) -> list[tuple[str, int, int | None]]:
    return [(sample.what, sample.value.bytes, sample.step) for sample in samples(text)]


def test_a_header_and_its_rows():
    log = "step,loss,cuda_alloc_mb\n0,0.9000,2100.0\n125,0.8875,2900.0\nTraceback (most recent call last):\n"
    assert rows(log) == [("allocated", 2100 * MIB, 0), ("allocated", 2900 * MIB, 125)]
    first = samples(log)[0]
    assert first.quote.text == "0,0.9000,2100.0"
    assert (first.quote.line, first.printer) == (2, "csv")
    # MB may be meant as 10**6: 2100 * 10**6, less half of the last printed digit, is within the slack.
    assert first.value.low_bytes == 2100 * 10**6 - 50_000


@pytest.mark.parametrize(
    ("name", "cell", "what", "size"),
    [
        ("cuda_alloc_mb", "2100.5", "allocated", 2202533888),  # 2100.5 * 2**20
        ("allocated_bytes", "1500000000", "allocated", 1500000000),
        ("memory_allocated (GiB)", "3.25", "allocated", gib(3.25)),
        ("memAllocatedMB", "7", "allocated", 7 * MIB),
        ("alloc_gib_after_backward", "2", "allocated", 2 * GIB),
        ("max_alloc_gib", "2.5", "max_allocated", gib(2.5)),
        ("alloc_mb_max", "12", "max_allocated", 12 * MIB),
        ("train/reserved [GiB]", "61.5", "reserved", gib(61.5)),
        ("peak_reserved_gb", "61.5", "max_reserved", gib(61.5)),
        ("gpu_mem_mib", "10321", "used", 10321 * MIB),
        ("gpu_mb", "10321", "used", 10321 * MIB),
        ("vram_used_gb", "5", "used", 5 * GIB),
        ("mem_mb", "2", "used", 2 * MIB),
        ("peak_mem_gb", "2", "max_allocated", 2 * GIB),
        ("host_rss_mb", "812", "host_used", 812 * MIB),
        ("run - system/gpu.0.memoryAllocatedBytes", "2147483648", "used", 2 * GIB),
        ("reserved_bytes", "1.2e+10", "reserved", 12_000_000_000),
    ],
)
def test_names_with_units(name, cell, what, size):
    assert figures(f"step,loss,{name}\n10,0.5,{cell}\n") == [(what, size)]


@pytest.mark.parametrize(
    "name",
    [
        "loss_mb",
        "gpu_free_mb",
        "gpu_mem_total_gb",
        "mem_limit_mb",
        "model_size_mb",
        "gpu_mem_delta_mb",
        "gpu_mem_bandwidth_gb",
        "kv_cache_mem_gb",
        "gpu_mem_pct",
        "estimated_mem_gb",
        "memcpy_mb",
        "gpu_mem",
        "mem_io_mb_s",
    ],
)
def test_names_of_other_quantities(name):
    assert figures(f"step,loss,{name}\n10,0.5,2100\n") == []


def test_a_bare_mem_needs_training_beside_it():
    assert figures("time,mem_mb\n10,2100\n") == []
    assert figures("epoch,mem_mb\n10,2100\n") == [("used", 2100 * MIB)]


@pytest.mark.parametrize(
    "log",
    [
        "step;loss;alloc_mb\n5;0,5;2100,5\n",
        "step\tloss\talloc_mb\n5\t0.5\t2,100.5\n",
        "| step | loss | alloc_mb |\n|------|-----:|----------|\n|    5 |  0.5 |   2100.5 |\n",
        '"step","loss","alloc_mb"\n"5","0.5","2100.5"\n',
        ",step,alloc_mb\n0,5,2100.5\n",
        "INFO:root:step,loss,alloc_mb\nINFO:root:5,0.5,2100.5\n",
        "2025-01-01 10:00:00,123 INFO step,loss,alloc_mb\n2025-01-01 10:00:09,456 INFO 5,0.5,2100.5\n",
        "train: step,loss,alloc_mb\ntrain: 5,nan,2100.5\n",
    ],
)
def test_separators_and_prefixes(log):
    assert rows(log) == [("allocated", 2202533888, 5)]  # 2100.5 * 2**20


def test_lines_between_rows_and_rows_without_a_figure():
    log = "step,loss,reserved_gib\n1,0.9,2\nsaving, please wait\n2,0.8,\n3,0.7,nan\n4,0.6,-1\nx,0.5,9\n5,0.5\n6,0.4,3\n"
    assert rows(log) == [("reserved", 2 * GIB, 1), ("reserved", 3 * GIB, 6)]


def test_a_table_ends_when_no_rows_come():
    other = "nothing of it\n" * 500
    assert rows(f"step,loss,reserved_gib\n1,0.9,2\n{other}7,8,9\n") == [("reserved", 2 * GIB, 1)]


def test_a_second_header_takes_over():
    log = "step,alloc_mb\n1,10\nreserved_mb,step\n20,2\n"
    assert rows(log) == [("allocated", 10 * MIB, 1), ("reserved", 20 * MIB, 2)]


def test_rank_device_and_phase_columns():
    log = "step,rank,gpu,split,alloc_mb\n1,0,4,train,10\n1,1,5,val,20\n"
    first, second = samples(log)
    assert (first.rank, first.device, first.context) == (0, 4, "train")
    assert (second.rank, second.device, second.context) == (1, 5, "eval")


def test_ranks_and_devices_in_names():
    log = "step,rank0_alloc_mb,rank1_alloc_mb,gpu0_mem_mb,gpu1_mem_mb\n1,10,20,30,40\n"
    found = [(one.what, one.value.bytes // MIB, one.rank, one.device) for one in samples(log)]
    # Of the two devices only the first is read: one series is one device's.
    assert found == [("allocated", 10, 0, None), ("allocated", 20, 1, None), ("used", 30, None, 0)]


def test_each_writer_has_its_own_table():
    log = (
        "[rank0]: step,alloc_mb\n[rank1]: step,loss,alloc_mb\n"
        "[rank0]: 1,10\n[rank1]: 1,0.5,20\n[rank1]: 2,30\n[rank0]: 2,40\n"
    )
    found = [(one.rank, one.step, one.value.bytes // MIB) for one in parse(build_document("x", [(1, log)]))]
    assert found == [(0, 1, 10), (1, 1, 20), (0, 2, 40)]


def test_many_rows_are_sampled():
    log = "step,loss,alloc_mb\n" + "".join(f"{step},0.5,{100 + step}\n" for step in range(5000))
    found = parse(document(log), limit=100)
    assert 60 <= len(found) <= 110
    assert (found[0].step, found[-1].step) == (0, 4999)
    assert [one.value.bytes for one in found] == [
        (100 + one.step) * MIB for one in found if one.step is not None
    ]


@pytest.mark.parametrize(
    "log",
    [
        # nvidia-smi's own, which the tables' parsers read
        "timestamp, index, memory.used [MiB], memory.total [MiB]\n2025/03/04 09:00:00.000, 0, 1200, 81920\n",
        "We log step, loss, and the memory used (GB)\nsaved, 3, times\n",
        "step=1, loss=0.5, mem_gb\n1,2,3\n",
        "columns: loss, alloc_mb\n",
    ],
)
def test_no_table_of_ours(log):
    assert figures(log) == []


_PIECES = st.sampled_from(
    [
        "step", "alloc_mb", "mem (GiB)", ",", ";", "\t", "|", '"', "1", "2.5", "-1", "nan", " ", ": ", "rank", "gpu",
        "1e99", "9" * 40, "1,000", "---", "İ", "\x00",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(_PIECES, max_size=10).map("".join), max_size=5))
def test_nothing_raises(lines):
    for sample in samples("\n".join(["step,loss,alloc_mb", *lines])):
        assert sample.value.bytes >= 0
