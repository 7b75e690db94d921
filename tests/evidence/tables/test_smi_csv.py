from oomph.evidence.tables import parse_gpus
from tests.evidence.tables.text import document, in_mib, listed, readings, used_total


def test_columns_are_read_by_their_header():
    text = """\
$ nvidia-smi --query-gpu=timestamp,index,name,memory.free,memory.total,memory.used --format=csv -l 30
timestamp, index, name, memory.free [MiB], memory.total [MiB], memory.used [MiB], utilization.gpu [%]
2025/03/04 09:10:00.100, 0, NVIDIA RTX A6000, 29689 MiB, 48541 MiB, 18852 MiB, 70 %
2025/03/04 09:10:00.110, 1, NVIDIA RTX A6000, 48000 MiB, 48541 MiB, 541 MiB, 0 %
2025-03-04 09:10:20,118 INFO epoch 1, step 3, loss 2.0, lr 1e-4, mem 3, 70 %
2025/03/04 09:10:30.101, 0, NVIDIA RTX A6000, 28929 MiB, 48541 MiB, 19612 MiB, 71 %
"""
    assert used_total(text) == [(0, 18852, 48541), (1, 541, 48541), (0, 19612, 48541)]
    first, _, third = readings(text)
    assert in_mib(first.free) == 29689
    assert first.name == "NVIDIA RTX A6000"
    # 2025-03-04 09:10:00.1 UTC
    assert first.time == 1741079400.1
    assert third.time == 1741079430.101
    assert first.quote.line == 3


def test_nounits_under_a_header_are_mib():
    text = "index, memory.used [MiB], memory.total [MiB]\n0, 18852, 48541\n1, 3, 48541\n"
    assert used_total(text) == [(0, 18852, 48541), (1, 3, 48541)]


def test_missing_values():
    text = "index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA GB10, [N/A], [Not Supported]\n"
    assert used_total(text) == [(0, None, None)]
    assert used_total("index, memory.used [MiB]\n0, [Unknown Error]\n1, 5 MiB") == [
        (0, None, None),
        (1, 5, None),
    ]


def test_noheader_after_an_echoed_command():
    text = (
        "+ nvidia-smi --query-gpu=index,memory.total,memory.used --format=csv,noheader,nounits\n"
        "0, 81559, 1234\n1, 81559, 5\n"
    )
    assert used_total(text) == [(0, 1234, 81559), (1, 5, 81559)]


def test_noheader_without_a_command_is_ambiguous():
    # used and total, or free and total?
    assert parse_gpus(document("0, 8311 MiB, 16303 MiB\n1, 8311 MiB, 16303 MiB")) == ([], [])
    assert parse_gpus(document("0, 8311, 16303")) == ([], [])


def test_uuids_number_the_boards():
    text = """\
uuid, memory.used [MiB], memory.total [MiB]
GPU-aaaa, 10 MiB, 100 MiB
GPU-bbbb, 20 MiB, 100 MiB
GPU-aaaa, 30 MiB, 100 MiB
"""
    assert used_total(text) == [(0, 10, 100), (1, 20, 100), (0, 30, 100)]


def test_time_stamps_make_bursts():
    text = """\
timestamp, memory.used [MiB], memory.total [MiB]
2025/03/04 09:10:00.100, 10 MiB, 100 MiB
2025/03/04 09:10:00.104, 20 MiB, 100 MiB
2025/03/04 09:10:05.101, 11 MiB, 100 MiB
2025/03/04 09:10:05.106, 21 MiB, 100 MiB
"""
    assert used_total(text) == [(0, 10, 100), (1, 20, 100), (0, 11, 100), (1, 21, 100)]


def test_rows_that_name_no_board():
    # Four boards once, or one board four times? One row is one board.
    assert used_total("memory.used [MiB], memory.total [MiB]\n1 MiB, 9 MiB\n2 MiB, 9 MiB\n") == []
    assert used_total("memory.used [MiB], memory.total [MiB]\n1 MiB, 9 MiB\n") == [(0, 1, 9)]
    assert used_total("name, memory.total [MiB]\nNVIDIA L4, 23034 MiB\nNVIDIA L4, 23034 MiB\n") == [
        (0, None, 23034),
        (1, None, 23034),
    ]


def test_a_single_column_of_bare_numbers_ends_with_its_block():
    text = "index, memory.used [MiB]\n0, 10\n1, 20\nepoch done\n3, 4\n"
    assert used_total(text) == [(0, 10, None), (1, 20, None)]


def test_driver_version():
    (one,) = readings("index, driver_version, memory.total [MiB]\n0, 535.104.05, 15360 MiB\n")
    assert one.driver == "535.104.05"


def test_compute_apps():
    text = """\
pid, process_name, used_gpu_memory [MiB]
152615, /usr/local/bin/worker, 5303 MiB
4242, python train.py --sizes 1, 2, 3, 700 MiB
999, [Insufficient Permissions], [N/A]
"""
    assert listed(text) == [
        (-1, 152615, "/usr/local/bin/worker", 5303),
        (-1, 4242, "python train.py --sizes 1, 2, 3", 700),
        (-1, 999, "[Insufficient Permissions]", None),
    ]


def test_compute_apps_of_known_boards():
    text = """\
index, uuid, memory.used [MiB]
0, GPU-aaaa, 10 MiB
1, GPU-bbbb, 20 MiB
gpu_uuid, pid, used_gpu_memory [MiB]
GPU-bbbb, 77, 19 MiB
"""
    assert listed(text) == [(1, 77, "", 19)]


def test_a_compute_app_without_header():
    assert listed("152615, /usr/local/bin/worker, 5303 MiB") == [(-1, 152615, "/usr/local/bin/worker", 5303)]


def test_a_header_alone():
    assert parse_gpus(document("pid, process_name, used_gpu_memory [MiB]\n")) == ([], [])
