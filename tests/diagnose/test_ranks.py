"""Who failed first, and who only died of it."""

from __future__ import annotations

from oomph.diagnose.engine import diagnose
from oomph.evidence.read import parse
from tests.diagnose.logs import BACKWARD, FORWARD, MODEL_TO, diagnosed, document, oom, traceback

TABLE = """\
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-04_10:11:12
  host      : node1
  rank      : {rank} (local_rank: {local})
  exitcode  : 1 (pid: 4243)
  error_file: <N/A>
"""
LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.2]:41231"
WATCHDOG = (
    "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: Work\n"
)


def of_rank(
    rank: int, frames: tuple[str, ...] = FORWARD, allocated: str = "76.40 GiB", cached: str = "1.10 GiB"
) -> str:
    return traceback(frames, oom(gpu=rank, allocated=allocated, cached=cached), prefix=f"[rank{rank}]: ")


def test_the_only_rank_with_a_failure_of_its_own() -> None:
    verdict = diagnosed(of_rank(2)).ranks
    assert (verdict.first, verdict.failed, dict(verdict.consequences)) == (2, (2,), {})
    assert "only rank" in verdict.how


def test_peers_die_of_it() -> None:
    log = (
        of_rank(2)
        + traceback(BACKWARD, LOST, prefix="[rank1]: ")
        + traceback(BACKWARD, LOST, prefix="[rank0]: ")
        + WATCHDOG
    )
    verdict = diagnosed(log).ranks
    assert verdict.first == 2
    assert verdict.failed == (2,)
    assert set(verdict.consequences) == {0, 1, 3}
    assert "connection" in verdict.consequences[0]
    assert "watchdog" in verdict.consequences[3]


def test_the_first_in_the_log_and_the_tables_other_opinion() -> None:
    verdict = diagnosed(of_rank(3) + of_rank(1) + TABLE.format(rank=1, local=1)).ranks
    assert verdict.first == 3
    assert verdict.failed == (3, 1)
    assert "table names rank 1" in verdict.how


def test_a_table_names_the_rank_of_an_unprefixed_message() -> None:
    log = traceback(FORWARD, oom(gpu=1)) + TABLE.format(rank=5, local=1)
    verdict = diagnosed(log).ranks
    assert verdict.first == 5


def test_without_any_sign_the_rank_is_unknown() -> None:
    verdict = diagnosed(traceback(FORWARD, oom(gpu=1))).ranks
    assert verdict.first is None
    assert "does not say" in verdict.how


def test_processes_that_the_launcher_stopped() -> None:
    entry = (
        "Failures:\n[1]:\n  time      : 2026-03-04_10:11:13\n  host      : node1\n  rank      : 0 (local_rank: 0)\n"
        "  exitcode  : -15 (pid: 4242)\n  error_file: <N/A>\n"
    )
    verdict = diagnosed(of_rank(1) + entry + TABLE.format(rank=1, local=1)).ranks
    assert verdict.first == 1
    assert "SIGTERM" in verdict.consequences[0]


def test_one_rank_with_more_than_the_rest() -> None:
    # 76.40 GiB against a middle of 51.00: a pipeline's last stage, an uneven split
    log = "".join(of_rank(rank, allocated="51.00 GiB", cached="0.50 GiB") for rank in (0, 1, 2))
    log += of_rank(3, allocated="76.40 GiB")
    assert any(
        "rank 3 held 76.40 GiB, the middle rank 51.00 GiB" in note for note in diagnosed(log).ranks.notes
    )


def test_equal_ranks_are_not_remarked_upon() -> None:
    log = "".join(of_rank(rank, allocated=f"76.{rank}0 GiB") for rank in range(4))
    assert diagnosed(log).ranks.notes == ()


def test_ranks_that_pile_up_on_gpu_0() -> None:
    log = "".join(
        traceback(MODEL_TO, oom(gpu=0, free=f"{rank}.05 GiB"), prefix=f"[rank{rank}]: ") for rank in range(3)
    )
    assert any("ranks 0, 1, 2 all failed on GPU 0" in note for note in diagnosed(log).ranks.notes)


def test_each_rank_on_its_own_gpu_is_no_pile() -> None:
    assert diagnosed(of_rank(0) + of_rank(1)).ranks.notes == ()


def test_files_of_ranks_know_their_rank() -> None:
    documents = [document(traceback(FORWARD, oom(gpu=rank)), f"{rank}/stderr.log", rank) for rank in (0, 1)]
    assert diagnose(parse(documents))[0].ranks.failed == (0, 1)


def test_time_orders_the_files_of_ranks() -> None:
    texts = [
        "2026-03-04 10:11:30 step 5\n" + traceback(FORWARD, oom(gpu=0)),
        "2026-03-04 10:11:12 step 5\n" + traceback(BACKWARD, oom(gpu=1)),
    ]
    documents = [document(text, f"{rank}/stderr.log", rank) for rank, text in enumerate(texts)]
    verdict = diagnose(parse(documents))[0]
    assert verdict.ranks.first == 1
    assert str(verdict.phase.phase) == "backward"


def test_a_rank_that_is_asked_for_is_explained() -> None:
    log = of_rank(0) + of_rank(1, BACKWARD)
    assert str(diagnosed(log).phase.phase) == "forward"
    asked = diagnosed(log, rank=1)
    assert (asked.incident.rank, str(asked.phase.phase)) == (1, "backward")


def test_no_failure_no_ranks() -> None:
    verdict = diagnosed("step 1 loss 2.0\n").ranks
    assert (verdict.first, verdict.failed, dict(verdict.consequences)) == (None, (), {})
