"""Which failure is explained, which rules run, and how findings are ordered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oomph.diagnose.engine import diagnose
from oomph.diagnose.model import Certainty, Outcome
from oomph.units import format_bytes
from tests.diagnose.logs import BACKWARD, FORWARD, GIB, MIB, diagnosed, evidence, oom, steps, traceback

LOG = traceback(FORWARD, oom("2.00 GiB", allocated="72.00 GiB", cached="5.00 GiB"))


def codes(select: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> set[str]:
    return {one.code for one in diagnose(evidence(LOG), select=select, ignore=ignore)[0].findings}


def test_findings_are_ranked_by_certainty_first() -> None:
    found = diagnosed(LOG).findings
    order = [Certainty.CERTAIN, Certainty.LIKELY, Certainty.POSSIBLE]
    ranks = [order.index(one.certainty) for one in found]
    assert ranks == sorted(ranks)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_select_and_ignore_take_prefixes() -> None:
    assert codes() >= {"OOM201", "OOM301"}
    assert codes(select=("OOM3",)) == {"OOM301"}
    assert "OOM301" not in codes(ignore=("OOM3",))
    assert codes(select=("OOM2",), ignore=("OOM201",)) == codes() - {"OOM201", "OOM301"}


def test_the_earliest_fatal_failure_is_explained() -> None:
    diagnosis = diagnosed(traceback(FORWARD, oom(gpu=0)) + traceback(BACKWARD, oom(gpu=1)))
    assert str(diagnosis.phase.phase) == "forward"
    assert diagnosis.incident is diagnosis.incidents[0]


def test_the_device_comes_before_the_host() -> None:
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some tasks have been OOM Killed.\n"
    assert diagnosed(killed + traceback(FORWARD, oom())).findings[0].cause == "activations"


def test_figures_come_before_an_echo_without() -> None:
    log = "RuntimeError: CUDA error: out of memory\n" + steps(1, 2) + "\n" * 30 + traceback(FORWARD, oom())
    assert diagnosed(log).incident.failure.numbers


def test_facts_of_the_job_are_kept_with_quotes() -> None:
    diagnosis = diagnosed("per_device_train_batch_size=8\nmax_seq_length: 2048\n" + LOG)
    facts = {fact.name: (fact.value, fact.quote.line) for fact in diagnosis.job}
    assert facts["batch_size"] == ("8", 1)
    assert facts["sequence_length"] == ("2048", 2)


def test_the_summary_says_what_where_and_how_much() -> None:
    summary = diagnosed(traceback(BACKWARD, oom("512.00 MiB", gpu=3), prefix="[rank3]: ")).summary
    assert summary == "CUDA out of memory in backward on rank 3 (GPU 3), asking for 512.00 MiB"


def test_other_errors_are_named_and_not_explained() -> None:
    log = traceback(["data.py:5 in load: raise ValueError(path)"], "ValueError: no such shard")
    diagnosis = diagnosed(log)
    assert diagnosis.outcome is Outcome.NO_OOM
    assert [quote.text for quote in diagnosis.other_errors] == ["ValueError: no such shard"]


def test_every_finding_has_evidence_and_a_sentence() -> None:
    for one in diagnosed(LOG).findings:
        assert all(value >= 0 for value in one.numbers.values())
        assert one.evidence
        assert one.says.endswith(".")


@given(
    request=st.integers(2 * MIB, 90 * GIB),
    total=st.integers(4 * GIB, 192 * GIB),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    phase=st.sampled_from([FORWARD, BACKWARD, ()]),
)
def test_any_message_gets_an_answer(
    request: int, total: int, shares: tuple[float, float, float], phase: tuple[str, ...]
) -> None:
    """Whatever the numbers: one incident, ordered findings, reasons with text, and no exception."""
    free, process = int(total * shares[0]), int(total * (1 - shares[0]) * shares[1])
    allocated = int(process * shares[2])
    message = oom(
        format_bytes(request),
        total=format_bytes(total),
        free=format_bytes(free),
        process=format_bytes(process),
        allocated=format_bytes(allocated),
        cached=format_bytes(max(0, process - allocated) // 2),
    )
    diagnosis = diagnosed(traceback(phase, message))
    assert diagnosis.outcome is Outcome.FAILED
    assert len(diagnosis.incidents) == 1
    assert all(1.0 <= one.score < 4.0 for one in diagnosis.findings)
    assert all(one.why for one in diagnosis.ruled_out)
    assert not {one.cause for one in diagnosis.findings} & {one.cause for one in diagnosis.ruled_out}
