"""Snapshots beside logs: one failure told twice is one, and the rules see the inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.api import explain, snapshot
from oomph.diagnose.model import Certainty, Diagnosis, Outcome
from oomph.diagnose.snapshot.join import join
from oomph.errors import InputError
from oomph.evidence.read import read
from oomph.phases import Phase
from oomph.report.options import ReportOptions
from oomph.report.text import render_text
from oomph.units import GIB, MIB, format_bytes
from tests.diagnose.logs import oom
from tests.snapshots.every import SCENARIOS
from tests.snapshots.scenarios import elsewhere, fragmentation, full, growth
from tests.snapshots.truth import Failed
from tests.snapshots.written import Made


def in_gib(size: int) -> str:
    """As PyTorch prints sizes of this order: two digits behind the point."""
    if size >= GIB:
        return f"{size / GIB:.2f} GiB"
    return f"{size / MIB:.2f} MiB"


def failed(made: Made) -> Failed:
    assert made.truth.failed is not None
    return made.truth.failed


def log_of(made: Made, *, gpu: int = 0, request: int | None = None) -> str:
    """The message of the very failure that `made` ends with, on a card with 2 GiB outside of PyTorch."""
    one = failed(made)
    process = one.reserved_bytes + GIB
    return (
        "step 3 loss 2.1\n"
        + oom(
            in_gib(request or one.segment_bytes),
            total=in_gib(one.reserved_bytes + one.free_bytes + 2 * GIB),
            free=in_gib(one.free_bytes),
            process=in_gib(process),
            others=((4242, in_gib(GIB)),),
            allocated=in_gib(one.allocated_bytes),
            cached=in_gib(one.reserved_bytes - one.allocated_bytes),
            gpu=gpu,
        )
        + "\n"
    )


def explained(folder: Path, made: Made, log: str | None) -> Diagnosis:
    (folder / "oom.pickle").write_bytes(made.pickled("2.13"))
    paths = [folder / "oom.pickle"]
    if log is not None:
        (folder / "train.log").write_text(log)
        paths.insert(0, folder / "train.log")
    return explain(paths)


def codes(diagnosis: Diagnosis) -> list[str]:
    return [finding.code for finding in diagnosis.findings]


def test_a_snapshot_alone_is_explained(tmp_path: Path):
    made = full.packed(1)
    diagnosis = explained(tmp_path, made, None)
    assert diagnosis.outcome is Outcome.FAILED
    assert diagnosis.exit_code == 1
    assert diagnosis.incident is not None
    ledger = diagnosis.incident.ledger
    assert (ledger.reserved_bytes, ledger.free_bytes) == (
        failed(made).reserved_bytes,
        failed(made).free_bytes,
    )
    assert "OOM301" not in codes(diagnosis)
    assert any(one.cause == "fragmentation" for one in diagnosis.ruled_out)


def test_a_log_and_its_snapshot_are_one_failure(tmp_path: Path):
    made = fragmentation.tails(1)
    diagnosis = explained(tmp_path, made, log_of(made))
    assert len(diagnosis.incidents) == 1
    assert diagnosis.incident is not None
    assert diagnosis.incident.failure.format != "snapshot"
    # The log gives what is outside, the snapshot what was inside.
    assert diagnosis.incident.ledger.capacity_bytes is not None
    first = diagnosis.findings[0]
    assert (first.code, first.certainty) == ("OOM301", Certainty.CERTAIN)
    assert "memory snapshot shows it" in first.says
    assert first.numbers["largest_hole_bytes"] == failed(made).hole_bytes


@pytest.mark.parametrize("change", ["gpu", "request"])
def test_another_failure_of_the_job_is_another(tmp_path: Path, change: str):
    made = fragmentation.tails(1)
    log = (
        log_of(made, gpu=1)
        if change == "gpu"
        else log_of(made, request=failed(made).segment_bytes + 400 * MIB)
    )
    diagnosis = explained(tmp_path, made, log)
    assert len(diagnosis.incidents) == 2


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (elsewhere.capped(1), "OOM104"),
        (elsewhere.outside_grew(1), "OOM106"),
        (elsewhere.side_stream(1), "OOM302"),
        (elsewhere.graph_pool(1), "OOM302"),
        (fragmentation.tails(1), "OOM301"),
    ],
    ids=["cap", "outside", "stream", "graphs", "fragments"],
)
def test_each_verdict_feeds_its_rule(tmp_path: Path, made: Made, code: str):
    diagnosis = explained(tmp_path, made, None)
    assert diagnosis.findings[0].code == code
    assert diagnosis.advice is not None


@pytest.mark.parametrize("name", sorted(full.WAYS))
def test_a_full_card_is_called_nothing_else(tmp_path: Path, name: str):
    diagnosis = explained(tmp_path, full.WAYS[name](2, "all"), None)
    assert not set(codes(diagnosis)) & {"OOM104", "OOM106", "OOM301", "OOM302"}


def test_growth_is_found_with_its_line(tmp_path: Path):
    run = growth.keeps_logits(1)
    made = run.tight(9 * run.roomy().device.step_peaks()[-1] // 10)
    assert made.truth.failed is not None
    diagnosis = explained(tmp_path, made, None)
    found = next(one for one in diagnosis.findings if one.code == "OOM208")
    assert found.numbers["bytes_per_step"] == sum(made.truth.leaks.values())


def test_a_steady_job_that_is_too_big_does_not_grow(tmp_path: Path):
    made = growth.steady(1).roomy()
    (tmp_path / "a.pickle").write_bytes(made.pickled("2.13"))
    report = snapshot(tmp_path / "a.pickle")
    assert report.devices[0].growth is not None
    assert not report.devices[0].growth.leaks


def test_a_job_that_caught_its_failure_recovered(tmp_path: Path):
    name = next(one for one in SCENARIOS if SCENARIOS[one](1, "all").truth.caught)
    diagnosis = explained(tmp_path, SCENARIOS[name](1, "all"), None)
    assert diagnosis.outcome is Outcome.RECOVERED
    assert diagnosis.exit_code == 0


def test_the_phase_is_that_of_the_stack(tmp_path: Path):
    for name, scenario in SCENARIOS.items():
        made = scenario(1, "all")
        if made.truth.failed is None or made.truth.caught or not name.startswith("training."):
            continue
        diagnosis = explained(tmp_path, made, None)
        assert diagnosis.phase is not None
        assert diagnosis.phase.phase is Phase(made.truth.failed.phase), name


def test_a_damaged_snapshot_beside_a_log_is_named(tmp_path: Path):
    made = full.packed(1)
    (tmp_path / "train.log").write_text(log_of(made))
    (tmp_path / "oom.pickle").write_bytes(made.pickled("2.13")[:-40])
    diagnosis = explain([tmp_path])
    assert diagnosis.outcome is Outcome.FAILED
    assert any("oom.pickle" in note for note in diagnosis.evidence.notes)


def test_a_damaged_snapshot_alone_is_a_sentence(tmp_path: Path):
    (tmp_path / "oom.pickle").write_bytes(full.packed(1).pickled("2.13")[:-40])
    with pytest.raises(InputError, match=r"oom\.pickle"):
        explain([tmp_path / "oom.pickle"])


def test_findings_of_the_command_are_those_of_explain(tmp_path: Path):
    made = fragmentation.tails(3)
    diagnosis = explained(tmp_path, made, None)
    report = snapshot(tmp_path / "oom.pickle")
    assert [one.code for one in report.findings] == codes(diagnosis)
    assert report.advice is not None
    assert diagnosis.advice is not None
    assert report.advice.first == diagnosis.advice.first


def test_rules_can_be_left_out(tmp_path: Path):
    (tmp_path / "oom.pickle").write_bytes(fragmentation.tails(3).pickled("2.13"))
    assert all(one.code != "OOM301" for one in snapshot(tmp_path / "oom.pickle", ignore=["OOM301"]).findings)


def test_a_snapshot_without_a_failure_points_to_its_own_command(tmp_path: Path):
    (tmp_path / "a.pickle").write_bytes(growth.steady(1).roomy().pickled("2.13"))
    diagnosis = explain([tmp_path / "a.pickle"])
    assert diagnosis.outcome is Outcome.NO_OOM
    assert any("oomph snapshot" in note for note in diagnosis.evidence.notes)


def test_what_was_read_counts_lines_and_events(tmp_path: Path):
    made = full.packed(1)
    diagnosis = explained(tmp_path, made, log_of(made))
    text = render_text(diagnosis, ReportOptions())
    events = len(made.content("2.13")["device_traces"][0])
    assert text.rstrip().endswith(f"Read 1 file (2 lines) and 1 memory snapshot ({events:,} events).")


def test_growth_before_a_failure_is_a_finding(tmp_path: Path):
    run = growth.keeps_logits(1)
    (tmp_path / "a.pickle").write_bytes(run.roomy().pickled("2.13"))
    report = snapshot(tmp_path / "a.pickle")
    [finding] = report.findings
    assert finding.code == "OOM208"
    assert finding.numbers["bytes_per_step"] == sum(run.truth.leaks.values())
    assert report.advice is not None
    assert report.advice.first.code == "detach-kept"
    assert report.exit_code == 0
    assert snapshot(tmp_path / "a.pickle", ignore=["OOM2"]).findings == ()
    assert snapshot(tmp_path / "a.pickle", select=["OOM3"]).findings == ()


def first_action(folder: Path, made: Made) -> str:
    advice = explained(folder, made, None).advice
    assert advice is not None
    return advice.first.code


def test_each_verdict_has_an_action_that_fits(tmp_path: Path):
    assert first_action(tmp_path, elsewhere.capped(1)) == "remove-cap"
    assert first_action(tmp_path, elsewhere.side_stream(1)) == "one-stream"
    assert first_action(tmp_path, elsewhere.graph_pool(1)) == "compile-without-graphs"
    assert first_action(tmp_path, elsewhere.large_pool(1)) == "expandable-segments"


def test_graph_pools_count_with_all_they_reserve(tmp_path: Path):
    made = elsewhere.graph_pool(1)
    diagnosis = explained(tmp_path, made, None)
    found = next(one for one in diagnosis.findings if one.code == "OOM209")
    private = sum(
        one["total_size"]
        for one in made.content("2.13")["segments"]
        if tuple(one["segment_pool_id"]) != (0, 0)
    )
    assert found.numbers == {"private_reserved_bytes": private}
    assert diagnosis.advice is not None
    assert format_bytes(private) in diagnosis.advice.first.text


def test_a_request_without_a_stack_has_the_phase_around_it(tmp_path: Path):
    run = growth.keeps_logits(1, "python")
    made = run.tight(9 * run.roomy().device.step_peaks()[-1] // 10)
    assert made.truth.failed is not None
    assert made.truth.failed.phase == "backward"
    phase = explained(tmp_path, made, None).phase
    assert phase is not None
    assert (phase.phase, phase.evidence) == (Phase.BACKWARD, "snapshot")


def test_each_rank_has_its_own_snapshot(tmp_path: Path):
    """Two ranks fail with the same sizes, as they do with batches of one shape."""
    made = fragmentation.tails(1)
    for rank in range(2):
        lines = "".join(f"[rank{rank}]: {line}\n" for line in log_of(made).splitlines())
        (tmp_path / f"rank_{rank}.log").write_text(lines)
        (tmp_path / f"oom_rank{rank}.pickle").write_bytes(made.pickled("2.13"))
    evidence = read(sorted(tmp_path.glob("*.log")))
    reports = [snapshot(path) for path in sorted(tmp_path.glob("*.pickle"))]
    joined, insides = join(evidence, reports)
    assert len(joined.failures) == 2
    for failure in joined.failures:
        assert insides[failure.position].source.endswith(f"oom_rank{failure.rank}.pickle")
