from oomph.evidence.model import Document, Line
from oomph.evidence.tables import parse_summaries
from tests.evidence.tables.text import GIB, KIB, MIB, document

FULL = """\
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 1                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 2            |        cudaMalloc retries: 13        |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      | 184648 KiB |   4261 MiB |    847 GiB |    846 GiB |
|       from large pool | 184576 KiB |   4228 MiB |    843 GiB |    843 GiB |
|       from small pool |     72 KiB |     33 MiB |      4 GiB |      4 GiB |
|---------------------------------------------------------------------------|
| Active memory         | 184648 KiB |   4261 MiB |    847 GiB |    846 GiB |
|---------------------------------------------------------------------------|
| Requested memory      | 180000 KiB |   4200 MiB |    840 GiB |    839 GiB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |   5120 MiB |   5120 MiB |   5122 MiB |   2048 KiB |
|---------------------------------------------------------------------------|
| Non-releasable memory |     512 B  |   1000 MiB |    400 GiB |    400 GiB |
|---------------------------------------------------------------------------|
| Allocations           |     512    |    2390    |    901 K   |    900 K   |
|       from large pool |     100    |     200    |    100 K   |    100 K   |
|---------------------------------------------------------------------------|
| Active allocs         |     512    |    2390    |    901 K   |    900 K   |
|---------------------------------------------------------------------------|
| GPU reserved segments |      61    |      61    |      62    |       1    |
|---------------------------------------------------------------------------|
| Non-releasable allocs |      30    |      90    |    400 K   |    400 K   |
|---------------------------------------------------------------------------|
| Oversize allocations  |       0    |       3    |       5    |       5    |
|---------------------------------------------------------------------------|
| Oversize GPU segments |       0    |       1    |       1    |       1    |
|===========================================================================|
"""


def test_a_full_table():
    (table,) = parse_summaries(document(FULL))
    assert table.device == 1
    assert table.quote.line == 2
    values = table.values
    assert values["num_ooms"].bytes == 2
    assert values["num_alloc_retries"].bytes == 13
    # 184648 KiB is the floor of the true value: it lies in [184648, 184649) KiB.
    current = values["allocated_bytes.all.current"]
    assert current.low_bytes == 184648 * KIB
    assert current.high_bytes == 184649 * KIB
    peak = values["allocated_bytes.all.peak"]
    assert (peak.low_bytes, peak.high_bytes) == (4261 * MIB, 4262 * MIB)
    assert values["allocated_bytes.all.allocated"].low_bytes == 847 * GIB
    assert values["allocated_bytes.small_pool.current"].low_bytes == 72 * KIB
    assert values["reserved_bytes.all.freed"].low_bytes == 2048 * KIB
    assert values["requested_bytes.all.peak"].low_bytes == 4200 * MIB
    assert values["active_bytes.all.freed"].low_bytes == 846 * GIB
    # Bytes are exact.
    assert (
        values["inactive_split_bytes.all.current"].bytes,
        values["inactive_split_bytes.all.current"].slack_bytes,
    ) == (512, 0)


def test_counts_are_floored_to_their_unit():
    values = parse_summaries(document(FULL))[0].values
    assert (values["allocation.all.current"].bytes, values["allocation.all.current"].slack_bytes) == (512, 0)
    total = values["allocation.all.allocated"]
    assert (total.low_bytes, total.high_bytes) == (901_000, 902_000)
    assert values["allocation.large_pool.peak"].bytes == 200
    assert values["segment.all.current"].bytes == 61
    assert values["active.all.peak"].bytes == 2390
    assert values["inactive_split.all.peak"].bytes == 90
    assert values["oversize_allocations.peak"].bytes == 3
    assert values["oversize_segments.allocated"].bytes == 1


def test_old_unit_names_mean_the_same():
    old = FULL.replace("KiB", " KB").replace("MiB", " MB").replace("GiB", " GB")
    assert parse_summaries(document(old))[0].values == parse_summaries(document(FULL))[0].values


def test_log_prefixes_and_other_writers_between():
    noisy = "\n".join(
        f"2025-03-04 09:00:00 | WARNING | trainer | {line}\n[rank1] step 3 | loss 2.1 |" if line else line
        for line in FULL.split("\n")
    )
    assert parse_summaries(document(noisy))[0].values == parse_summaries(document(FULL))[0].values


def test_cut_off_inside_a_number():
    cut = FULL[: FULL.index("4261 MiB") + 2]
    (table,) = parse_summaries(document(cut))
    assert set(table.values) == {"num_ooms", "num_alloc_retries", "allocated_bytes.all.current"}


def test_a_table_without_its_title():
    beheaded = FULL[FULL.index("|        Metric") :]
    (table,) = parse_summaries(document(beheaded))
    assert table.device is None
    assert table.values["allocated_bytes.all.peak"].low_bytes == 4261 * MIB


def test_two_tables_one_after_the_other():
    second = FULL.replace("device ID 1", "device ID 0").replace("4261 MiB", "4300 MiB")
    tables = parse_summaries(document(FULL + second))
    assert [table.device for table in tables] == [1, 0]
    assert [table.values["allocated_bytes.all.peak"].low_bytes // MIB for table in tables] == [4261, 4300]


def test_two_ranks_write_at_once():
    other = FULL.replace("device ID 1", "device ID 0").replace("4261 MiB", "4300 MiB")
    lines = []
    for number, (one, two) in enumerate(zip(FULL.split("\n"), other.split("\n"), strict=True), 1):
        lines += [Line(one, number, "rank1", 1), Line(two, number, "rank0", 0)]
    tables = parse_summaries(Document("x", lines))
    assert {table.device: table.values["allocated_bytes.all.peak"].low_bytes // MIB for table in tables} == {
        1: 4261,
        0: 4300,
    }


def test_rows_alone_or_prose_are_no_table():
    assert parse_summaries(document("| Allocated memory      | 184648 KiB |   4261 MiB |\n")) == []
    assert parse_summaries(document("see the PyTorch CUDA memory summary, device ID 0 | below")) == []
