"""Damaged tables give fewer results, never an exception, and junk costs linear time."""

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.model import Document, Line
from oomph.evidence.tables import parse_gpus, parse_summaries
from tests.evidence.tables.test_memory_summary import FULL
from tests.evidence.tables.test_other_vendors import ROCM
from tests.evidence.tables.test_smi_table import MIG, NEW, OLD

CSV = (
    "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n2025/03/04 09:10:00.1, 0, A, 1 MiB, 2 MiB\n"
    * 3
)
MORE = """\
# gpu     fb   bar1   ccpm
    0  62123      4      0
pid, process_name, used_gpu_memory [MiB]
152615, /usr/local/bin/worker, 5303 MiB
PID    \tPROCESS NAME   \tGPU(s)\tVRAM USED  \tSDMA USED\tCU OCCUPANCY\t
9399\tworker\t1     \t329576448  \t0        \tUNKNOWN\t
GPU:0
process      12345 uses     1234.000 MB GPU memory
[0] NVIDIA RTX A5000 | 47'C,   0 % | 11389 / 24564 MB | python3/486829(10544M)
Timestamp, DeviceId, GPU Memory Used (MiB)
14:32:57.448,    0, 28.25
| AMD-SMI 26.0.2 |
|   0       0     N/A             N/A | 100 %   29.8 %          11541/16304 MB |
GPU  VRAM_USED  VRAM_TOTAL
  0     10 MB    65501 MB
OrderedDict([('allocated_bytes.all.peak', 123), ('num_ooms', 1)])
"""
ALL = OLD + NEW + MIG + FULL + ROCM + CSV + MORE


def read(lines: list[str]) -> None:
    document = Document("x", [Line(text, number) for number, text in enumerate(lines, 1)])
    readings, processes = parse_gpus(document)
    for reading in readings:
        assert reading.gpu >= 0
        assert document.lines[reading.position.line].text.strip() == reading.quote.text
    for process in processes:
        assert process.pid >= 0
    for table in parse_summaries(document):
        assert all(value.bytes >= 0 for value in table.values.values())


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_mutated_tables(chance: random.Random):
    text = list(ALL)
    for _ in range(chance.randint(1, 60)):
        at = chance.randrange(len(text))
        kind = chance.randrange(4)
        if kind == 0:
            del text[at : at + chance.randint(1, 40)]
        elif kind == 1:
            text.insert(at, chance.choice(["\n", "|", ",", "9" * 30, "٣", " MiB", "\x00", "[", "-1", "1e9"]))
        elif kind == 2:
            text[at] = chance.choice("0123456789|,:- \t")
        else:
            start = chance.randrange(len(text))
            text[at:at] = text[start : start + 60]
    read("".join(text).split("\n"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=120), max_size=5))
def test_any_text(lines: list[str]):
    read(lines)
    read([*NEW.split("\n")[:6], *lines, *CSV.split("\n"), *lines, *FULL.split("\n")[:8], *lines])


def test_every_cut_of_a_table():
    for end in range(0, len(ALL), 97):
        read(ALL[:end].split("\n"))


def test_long_junk_is_cheap():
    junk = ["|   0  ", "| 1MiB / 2MiB ", "memory.used, ", "allocated_bytes.all.peak: ", "| 1 x ",
            "GPU[0] : VRAM Total ", "0 MB ", "[0] a | % | 1 / 2 MB ", "'num_ooms': 1, "]  # fmt: skip
    lines = [piece * (500_000 // len(piece)) for piece in junk]
    lines += [piece * (1_900 // len(piece)) for piece in junk] * 20
    start = time.perf_counter()
    read(lines)
    assert time.perf_counter() - start < 10
