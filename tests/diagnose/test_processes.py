"""Who is on the card: this process, its siblings, an engine, strangers."""

from __future__ import annotations

from oomph.units import GIB
from tests.diagnose.logs import BACKWARD, FORWARD, case_of, gib, mib, old_oom, oom, traceback

#: Inside a container the process is listed under a pid that it does not know, and has no clause of its own.
#: It holds 37.00 + 1.30 = 38.30 reserved and 0.90 GiB of context: 39.20 GiB.
LISTED = oom(
    total="39.39 GiB",
    free="0.19 GiB",
    process=None,
    others=[(2211, "39.20 GiB")],
    allocated="37.00 GiB",
    cached="1.30 GiB",
)
SMI = (
    "| Processes:                                                                              |\n"
    "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |\n"
)


def roles(text: str) -> list[tuple[int, str]]:
    return [(one.pid, one.role) for one in case_of(text).neighbours.others]


def test_a_lone_entry_is_this_process_seen_from_outside() -> None:
    around = case_of(traceback(FORWARD, LISTED)).neighbours
    assert (around.self_pid, around.self_bytes, around.others) == (2211, gib(39.20), ())


def test_it_then_gives_the_ledger_what_is_outside() -> None:
    # 39.20 - 37.00 - 1.30 = 0.90 GiB
    ledger = case_of(traceback(FORWARD, LISTED)).ledger
    assert ledger.process_bytes == gib(39.20)
    assert abs((ledger.outside_bytes or 0) - gib(0.90)) <= 3 * gib(0.005)


def test_an_entry_that_is_far_from_what_pytorch_holds_is_a_stranger() -> None:
    # 30.00 GiB listed, 7.90 + 0.20 reserved: 21.90 GiB more than PyTorch holds
    message = oom(
        total="39.39 GiB",
        free="0.19 GiB",
        process=None,
        others=[(2211, "30.00 GiB")],
        allocated="7.90 GiB",
        cached="0.20 GiB",
    )
    around = case_of(traceback(FORWARD, message)).neighbours
    assert around.self_pid is None
    assert [(one.pid, one.role) for one in around.others] == [(2211, "foreign")]


def test_with_a_clause_of_its_own_nobody_else_is_this_process() -> None:
    # The stranger holds as much as this process, by chance.
    message = oom(
        free="0.15 GiB",
        others=[(7, "39.50 GiB")],
        process="39.50 GiB",
        allocated="38.00 GiB",
        cached="0.90 GiB",
    )
    around = case_of(traceback(FORWARD, message)).neighbours
    assert around.self_pid is None
    assert around.of("foreign")[0].used_bytes == gib(39.50)


def test_this_process_and_a_stranger_in_one_list() -> None:
    # 24.00 = 0.10 free + 14.60 this process (14.00 + 0.10 reserved, 0.50 context) + 9.30 stranger
    message = oom(
        total="24.00 GiB",
        free="0.10 GiB",
        process=None,
        others=[(50, "9.30 GiB"), (61, "14.60 GiB")],
        allocated="14.00 GiB",
        cached="0.10 GiB",
    )
    around = case_of(traceback(FORWARD, message)).neighbours
    assert around.self_pid == 61
    assert [(one.pid, one.role) for one in around.others] == [(50, "foreign")]


def test_launchers_name_the_ranks() -> None:
    message = oom(
        free="0.25 GiB",
        others=[(4243, "19.00 GiB"), (4244, "18.00 GiB")],
        process="41.90 GiB",
        allocated="40.00 GiB",
    )
    table = (
        "W0304 torch.distributed.elastic.multiprocessing.api: Sending process 4243 closing signal SIGTERM\n"
        "W0304 torch.distributed.elastic.multiprocessing.api: Sending process 4244 closing signal SIGTERM\n"
    )
    assert roles(traceback(FORWARD, message) + table) == [(4243, "sibling"), (4244, "sibling")]
    assert roles(traceback(FORWARD, message)) == [(4243, "foreign"), (4244, "foreign")]


def test_twins_need_a_job_of_several_ranks() -> None:
    message = oom(
        free="0.25 GiB",
        others=[(4243, "19.00 GiB"), (4244, "19.10 GiB")],
        process="40.80 GiB",
        allocated="39.00 GiB",
    )
    assert roles("world_size: 8\n" + traceback(FORWARD, message)) == [(4243, "sibling"), (4244, "sibling")]
    assert roles("world_size: 1\n" + traceback(FORWARD, message)) == [(4243, "foreign"), (4244, "foreign")]


def test_pids_far_apart_are_no_twins() -> None:
    message = oom(
        free="0.25 GiB",
        others=[(100, "19.00 GiB"), (90_000, "19.10 GiB")],
        process="40.80 GiB",
        allocated="39.00 GiB",
    )
    assert roles("world_size: 8\n" + traceback(FORWARD, message)) == [(100, "foreign"), (90_000, "foreign")]


def test_an_engine_is_known_by_its_actor() -> None:
    message = oom(
        free="0.45 GiB",
        others=[(8811, "42.10 GiB")],
        process="36.60 GiB",
        allocated="35.10 GiB",
        cached="0.90 GiB",
    )
    ray = "(vLLMHttpServer pid=8811) INFO 06-01 10:00:00 starting\n"
    assert roles(ray + traceback(BACKWARD, message)) == [(8811, "engine")]


def test_an_engine_is_known_by_its_name_in_nvidia_smi() -> None:
    message = oom(
        free="0.45 GiB",
        others=[(8811, "42.10 GiB")],
        process="36.60 GiB",
        allocated="35.10 GiB",
        cached="0.90 GiB",
    )
    smi = "pid, process_name, used_gpu_memory [MiB]\n8811, VLLM::EngineCore, 43110 MiB\n"
    assert roles(smi + traceback(BACKWARD, message)) == [(8811, "engine")]


def test_nvidia_smi_names_whom_an_old_message_does_not() -> None:
    row = "|    0   N/A  N/A       900      C   python3                                       {used}MiB |\n"
    smi = SMI + row.format(used=44_000)
    case = case_of(smi + traceback(FORWARD, old_oom(allocated="32.00 GiB", reserved="32.50 GiB")))
    assert [(one.pid, one.used_bytes, one.role) for one in case.neighbours.others] == [
        (900, mib(44_000), "foreign")
    ]
    assert [quote.line for quote in case.neighbours.from_smi] == [3]


def test_a_row_of_nvidia_smi_that_fits_is_this_process() -> None:
    # 34.50 GiB reserved and 0.60 GiB of context: 35,942 MiB
    row = "|    0   N/A  N/A       900      C   python3                                       35942MiB |\n"
    case = case_of(SMI + row + traceback(FORWARD, old_oom(allocated="34.00 GiB", reserved="34.50 GiB")))
    assert (case.neighbours.self_pid, case.neighbours.others) == (900, ())


def test_rows_of_other_gpus_do_not_count() -> None:
    row = "|    5   N/A  N/A       900      C   python3                                       39100MiB |\n"
    case = case_of(SMI + row + traceback(FORWARD, old_oom(allocated="34.00 GiB", reserved="34.50 GiB")))
    assert case.neighbours.others == ()


def test_a_value_that_is_no_size_is_no_use() -> None:
    message = oom(free="0.45 GiB", others=[(11, "17179869184.00 GiB")], process="78.00 GiB")
    case = case_of(traceback(FORWARD, message))
    assert [one.used_bytes for one in case.neighbours.others] == [None]
    assert case.neighbours.total_bytes == 0


def test_bytes_are_added_up_by_role() -> None:
    message = oom(
        free="0.25 GiB",
        others=[(1, "2.00 GiB"), (500, "3.00 GiB")],
        process="73.90 GiB",
        allocated="72.00 GiB",
    )
    around = case_of(traceback(FORWARD, message)).neighbours
    assert around.bytes_of("foreign") == 5 * GIB
    assert around.bytes_of("sibling") == 0
