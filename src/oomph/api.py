"""The library's functions. None of them prints or exits."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from oomph.errors import InputError

if TYPE_CHECKING:
    from oomph.diagnose.case import Case
    from oomph.diagnose.compare import Comparison
    from oomph.diagnose.model import Diagnosis
    from oomph.diagnose.recorded.model import Records
    from oomph.diagnose.snapshot.analysis import Analysis
    from oomph.diagnose.snapshot.model import Inside, SnapshotReport
    from oomph.diagnose.trace.inprocess import Tracing
    from oomph.diagnose.trace.model import TraceReport
    from oomph.evidence.model import Evidence, Position
    from oomph.evidence.run.data import RunData
    from oomph.evidence.snapshot import Snapshot
    from oomph.job.model import Job
    from oomph.predict.model import Plan
    from oomph.remedy.log_given import Given

__all__ = ["compare", "explain", "plan", "snapshot", "trace"]


def explain(
    paths: Sequence[str | os.PathLike[str]],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rank: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    stdin: BinaryIO | None = None,
    job: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Job | None = None,
    elsewhere: Callable[..., Sequence[Any]] | None = None,
) -> Diagnosis:
    """Reads what a job left behind and says why it failed.

    `paths` are files, folders, run directories, glob patterns or "-" (then `stdin` is read). `select` and `ignore` are
    rule-code prefixes. With `rank`, that rank's failure is explained where several ranks failed. `progress(done_bytes,
    total_bytes)` is called now and then. `job` is what was trained, as `plan` takes it, or files that say a part of it;
    without it the log is asked, and where the job is known, the answer has what the changes are predicted to free and
    whether prediction and log agree. `elsewhere` (oomph.evidence.sources.Elsewhere) reads files in other processes; the
    answer is the same. Raises InputError when there is nothing to read, and UsageError for a `job` that
    is none; findings and contradictions are part of the answer, never exceptions.
    """
    from oomph.remedy.beside import with_advice

    diagnosis, case, given = diagnosed(
        paths,
        select=select,
        ignore=ignore,
        rank=rank,
        progress=progress,
        stdin=stdin,
        job=job,
        elsewhere=elsewhere,
    )
    if case is None or not diagnosis.findings:
        return diagnosis
    if given is None and case.recorded is not None:
        recorded = _recorded_job(case.recorded.run)
        if recorded is not None:
            answer = with_advice(case, diagnosis, recorded)
            if answer.plan is not None:
                return answer
    return with_advice(case, diagnosis, given)


def diagnosed(
    paths: Sequence[str | os.PathLike[str]],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rank: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    stdin: BinaryIO | None = None,
    job: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Job | None = None,
    elsewhere: Callable[..., Sequence[Any]] | None = None,
) -> tuple[Diagnosis, Case | None, Given | None]:
    """As `explain`, before any advice: the diagnosis, the case that it was made of (None where nothing failed), and
    what `job` says of the job."""
    # Imported here, as below: each function loads what it needs; a snapshot's answer needs no parser of logs, and a
    # plan nothing of a diagnosis.
    from oomph.diagnose.engine import diagnose
    from oomph.diagnose.jobs import of_one_job, several_jobs
    from oomph.diagnose.model import Outcome
    from oomph.diagnose.notes import RULES_LEFT_OUT
    from oomph.evidence.read import read
    from oomph.evidence.run.read import is_run

    given = None
    if job is not None:
        from oomph.remedy.log_given import given_as

        given = given_as(job)
    if any(is_run(path) for path in paths):
        from oomph.evidence.run.explained import read_with_runs

        logs, runs = read_with_runs(paths, stdin=stdin, progress=progress, elsewhere=elsewhere)
    else:
        from oomph.evidence.run.explained import refuse_other_places

        refuse_other_places(paths)
        logs, runs = read(paths, stdin=stdin, progress=progress, elsewhere=elsewhere), ()
    evidence, insides = _with_snapshots(logs)
    evidence, records = _with_runs(evidence, runs)
    diagnosis, case = diagnose(
        evidence, select=select, ignore=ignore, rank=rank, insides=insides, records=records
    )
    if diagnosis.incident is not None:
        document = diagnosis.incident.failure.position.document
        difference = several_jobs(evidence, document)
        if difference:
            evidence = of_one_job(evidence, document)
            diagnosis, case = diagnose(
                evidence, select=select, ignore=ignore, rank=rank, insides=insides, records=records
            )
            note = (
                f"The input looks like several jobs ({difference}): of the job, only what "
                f"{evidence.documents[document].source} says is used. Explain each job by itself."
            )
            diagnosis = replace(diagnosis, notes=(note, *diagnosis.notes))
    if (select or ignore) and not diagnosis.findings and diagnosis.outcome is Outcome.FAILED:
        diagnosis = replace(diagnosis, notes=(*diagnosis.notes, RULES_LEFT_OUT))
    return diagnosis, case, given


#: A run says its job well enough for a prediction when it decides these; the rest may be as by default.
_DECIDED = frozenset({"precision", "method", "batch.micro", "batch.sequence", "optimizer.name"})


def _recorded_job(run: RunData) -> Given | None:
    """The job that a run recorded, where it recorded enough of it to predict anything."""
    if not run.fingerprints:
        return None
    from oomph.diagnose.verify.against.recorded_job import recorded_job
    from oomph.errors import OomphError
    from oomph.remedy.log_given import Given

    try:
        found = recorded_job(run)
    except OomphError:
        return None
    if found.unsupported or not found.said >= _DECIDED:
        return None
    return Given(whole=found.job, names=("the job that the run recorded",))


def _with_runs(evidence: Evidence, runs: Sequence[RunData]) -> tuple[Evidence, Records | None]:
    """The evidence with what the run directories among the input recorded."""
    if not runs:
        return evidence, None
    from oomph.diagnose.recorded.join import join as join_records

    return join_records(evidence, runs)


def _with_snapshots(evidence: Evidence) -> tuple[Evidence, Mapping[Position, Inside]]:
    """The evidence with the memory snapshots that were among the input, and what they show of each failure."""
    if not evidence.snapshots:
        return evidence, {}
    # Only who reads a snapshot needs numpy.
    from oomph.diagnose.snapshot.beside import reports_of
    from oomph.diagnose.snapshot.join import join

    reports, notes = reports_of(evidence.snapshots)
    if not reports and not evidence.documents and not evidence.recorded:
        raise InputError(notes[0] if notes else "No memory snapshot could be read.")
    if reports and all(one.failure is None for report in reports for one in report.devices):
        notes.append(
            "No request failed in the memory snapshot: `oomph snapshot` shows what was alive and what grows."
        )
    evidence = replace(evidence, notes=(*evidence.notes, *notes))
    return join(evidence, reports)


def compare(
    path_a: str | os.PathLike[str],
    path_b: str | os.PathLike[str],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Explains two failed runs of one job and says what differs between them. Errors as in `explain`."""
    a = explain([path_a], select=select, ignore=ignore, progress=progress)
    b = explain([path_b], select=select, ignore=ignore, progress=progress)
    from oomph.diagnose.compare import compare as compare_diagnoses

    return compare_diagnoses(os.fspath(path_a), a, os.fspath(path_b), b)


def snapshot(
    path: str | os.PathLike[str],
    *,
    at: str | None = None,
    device: int | None = None,
    capacity_bytes: int | None = None,
    what_if: Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> SnapshotReport:
    """Reads a PyTorch memory snapshot and says why its request failed and what was alive.

    No code in the file is run. `at` is the moment to look at ("oom", "retry", "peak-allocated", "peak-reserved",
    "start", "end", an event's number, or seconds since the first: "12.5s"); without it, the request that failed, else
    the peak. `device` is the GPU to look at. `capacity_bytes` is what PyTorch could have in all, for snapshots that do
    not tell it. `what_if` are settings under which the same requests are played again ("all", "empty_cache",
    "capacity:40GiB", or allocator settings as PyTorch writes them). `select` and `ignore` are rule-code prefixes.
    Raises InputError for a file that is no snapshot, UsageError for a moment, device or setting that there is not.
    """
    return snapshot_with_analyses(
        path,
        at=at,
        device=device,
        capacity_bytes=capacity_bytes,
        what_if=what_if,
        select=select,
        ignore=ignore,
    )[0]


def snapshot_with_analyses(
    path: str | os.PathLike[str],
    *,
    at: str | None = None,
    device: int | None = None,
    capacity_bytes: int | None = None,
    what_if: Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[SnapshotReport, tuple[Analysis, ...]]:
    """As `snapshot`, with what the report rests on, one for each of its devices. `stage` is told what is done next."""
    from oomph.evidence.snapshot.unpickle import without_collector

    # The collector would walk the lists of all stacks again and again, and find nothing.
    with without_collector():
        return _answered(path, at, device, capacity_bytes, what_if, select, ignore, stage)[1:]


def _answered(
    path: str | os.PathLike[str],
    at: str | None,
    device: int | None,
    capacity_bytes: int | None,
    what_if: Sequence[str],
    select: Sequence[str],
    ignore: Sequence[str],
    stage: Callable[[str], None],
) -> tuple[Snapshot, SnapshotReport, tuple[Analysis, ...]]:
    # numpy and the allocator take longer to import than most logs to explain.
    from oomph.diagnose.snapshot.build import analyse, report_of
    from oomph.evidence.snapshot import read as read_snapshot

    stage("reading")
    content = read_snapshot(path)
    stage("looking at")
    analyses = analyse(content, at, device)
    report = report_of(
        content,
        analyses=analyses,
        size_bytes=os.path.getsize(path),  # noqa: PTH202 - any path-like
        at=at,
        device=device,
        capacity_bytes=capacity_bytes,
        what_if=what_if,
    )
    return content, _with_findings(report, select, ignore), analyses


def traced_with_analyses(
    path: str | os.PathLike[str],
    command: str = "",
    *,
    at: str | None = None,
    device: int | None = None,
    what_if: Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> tuple[TraceReport, tuple[Analysis, ...]]:
    """What a file that a trace wrote says, with what the report rests on. `command` is what was traced; the rest is as
    in `snapshot`. Raises InputError for a file that no trace wrote."""
    from oomph.diagnose.trace.build import trace_report
    from oomph.evidence.snapshot.unpickle import without_collector

    with without_collector():
        content, report, analyses = _answered(path, at, device, None, what_if, select, ignore, lambda _: None)
        chosen = device is not None
        return trace_report(report, content.traced, analyses, command, chosen=chosen), analyses


def trace(
    target: str | Callable[..., object] | None = None,
    *,
    gpu: str | None = None,
    capacity: int | str | None = None,
    steps: int | None = None,
    torch: str | None = None,
    alloc_conf: str | None = None,
    rank: int = 0,
    world: int = 1,
    stacks: bool = True,
    keywords: Mapping[str, object] | None = None,
) -> Tracing:
    """Runs PyTorch code in this process without a GPU, and says what it would need on one.

    Without `target`, a context manager: `with oomph.trace(gpu="a100-80gb") as t: ...`; what runs in the block is
    traced, and `t.prediction`, `t.report` and `t.save(path)` answer after it. With a function, or "module:function",
    that is called with `keywords` inside, and the finished trace is returned.

    `gpu` is the GPU that it is to run on (None: memory without end, kernels as on an A100 80GB), `capacity` what
    PyTorch can have in all (bytes, or text like "38GiB"; None: what the GPU leaves). `steps` ends it after so many
    optimizer steps, `torch` is the PyTorch that the answer is to speak for ("2.6"; None: the installed one),
    `alloc_conf` the allocator's settings as text (None: the environment's). `rank` of `world` processes is simulated.
    Raises UsageError for what is not known, and where this PyTorch cannot be traced.
    """
    from oomph.diagnose.trace.inprocess import Tracing, run_function
    from oomph.errors import UsageError
    from oomph.tracing.choices import Asked, allocator_conf, settings_for
    from oomph.units import size_given

    room = size_given(capacity) if isinstance(capacity, str) else capacity
    if capacity is not None and (room is None or room <= 0):
        raise UsageError(f"capacity {str(capacity)[:60]!r} is no size; give one like '78GiB', or bytes")
    settings, notes = settings_for(
        Asked(
            gpu=gpu,
            capacity_bytes=room,
            torch=torch,
            conf=allocator_conf() if alloc_conf is None else alloc_conf,
            steps=steps,
            rank=rank,
            world=world,
            device_count=max(1, min(world, 8)),
            stacks=stacks,
        )
    )
    if target is None:
        return Tracing(settings, notes)
    name = target if isinstance(target, str) else getattr(target, "__qualname__", "a function")
    return run_function(Tracing(settings, notes, name), target, dict(keywords or {}))


def plan(
    job: Job | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    settings: Mapping[str, object] | None = None,
    replay: bool = True,
    network: bool = False,
) -> Plan:
    """Predicts what a training job will need, per phase and kind of rank, without a GPU and without PyTorch.

    `job` is a `Job` (oomph.job.model), a model's name, a folder with a config.json, a job file, or several files that
    describe one job together (docs/job-files.md). `gpu` is the GPU that it is to run on, with how many ("8xH100"), or a
    machine type; `gpus` their number in all. `settings` change fields of the job by name ({"batch.micro": 2,
    "parallel.strategy": "fsdp2_full"}). Without `replay`, what is allocated is added up, and nothing is said of what is
    reserved on top. With `network`, an unknown model is looked for on the hub.

    What neither the job nor the settings say is assumed; the plan lists it. A job with something that is not modelled
    gives a plan without ranks, that names it under `unsupported`. Raises UsageError for a job that makes no sense, or
    a name that is not known; InputError for a file that cannot be read.
    """
    from oomph.job.change import with_values
    from oomph.job.defaults import with_defaults
    from oomph.job.inputs import WHOLE, Inputs, read_inputs
    from oomph.job.model import Job
    from oomph.job.placement import with_hardware, with_ranks

    values = dict(settings or {})
    found = None
    if gpu is not None:
        from oomph.hardware.names import asked

        found = asked(gpu)
    count = found.count if found is not None and gpus is None else gpus
    if isinstance(job, Job):
        given = Inputs(job, WHOLE)
    else:
        several = [job] if isinstance(job, (str, os.PathLike)) else list(job)
        given = read_inputs([os.fspath(each) for each in several], network=network, gpus=count)
    if count is not None:
        values.setdefault("hardware.gpus", count)
    understood = with_values(with_hardware(given.job, found, count), values)
    understood = with_ranks(understood, values)
    understood, assumptions = with_defaults(understood, {*values, *given.said})
    answer = plan_job(understood, replay=replay, unsupported=given.unsupported)
    return replace(
        answer, assumptions=(*assumptions, *answer.assumptions), notes=(*given.notes, *answer.notes)
    )


def plan_job(job: Job, *, replay: bool = True, unsupported: Sequence[str] = ()) -> Plan:
    """The plan of a job as it stands. `unsupported` is what was asked for beside it and cannot be predicted. Raises
    UsageError for a job that makes no sense."""
    from oomph.job.check import check

    check(job)
    if unsupported:
        from oomph.predict.model import Plan

        return Plan(job, (), None, None, None, (), tuple(unsupported))
    from oomph.predict.plan import plan as predict

    return predict(job, replay=replay)


def _with_findings(report: SnapshotReport, select: Sequence[str], ignore: Sequence[str]) -> SnapshotReport:
    """The report with what the rules say of the failure on the device that it shows, and the advice that follows."""
    if not report.devices:
        return report
    if report.devices[report.shown].failure is None:
        return _with_growth(report, select, ignore)
    from oomph.diagnose.engine import diagnose
    from oomph.diagnose.snapshot.join import join
    from oomph.evidence.model import Evidence
    from oomph.remedy.advise import advise

    alone = replace(report, devices=(report.devices[report.shown],), shown=0)
    evidence, insides = join(Evidence(documents=()), [alone])
    diagnosis, case = diagnose(evidence, select=select, ignore=ignore, insides=insides)
    if case is None:
        return report
    advice = advise(case, diagnosis.findings, diagnosis.incidents) if diagnosis.findings else None
    return replace(report, findings=diagnosis.findings, ruled_out=diagnosis.ruled_out, advice=advice)


def _with_growth(report: SnapshotReport, select: Sequence[str], ignore: Sequence[str]) -> SnapshotReport:
    """The report with the finding of what grows, before anything has failed for it."""
    growth = report.devices[report.shown].growth
    if growth is None or not growth.leaks:
        return report
    from oomph.diagnose.model import Advice
    from oomph.diagnose.rules.oom208_growth import GrowthOverSteps
    from oomph.remedy.actions.detach_kept import DetachKept

    rule = GrowthOverSteps()
    finding = rule.before_a_failure(growth)
    left_out = (select and not rule.code.startswith(tuple(select))) or rule.code.startswith(tuple(ignore))
    if finding is None or left_out:
        return report
    return replace(report, findings=(finding,), advice=Advice(first=DetachKept().for_finding(finding)))
