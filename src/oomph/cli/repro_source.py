"""From the sources of `oomph repro` to a job and a phase."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.cli import repro_kinds as kinds
from oomph.errors import InputError, OomphError, UsageError
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.trial.repro.model import Asked

if TYPE_CHECKING:
    from oomph.cli.plan_job import Understood
    from oomph.cli.repro import Request
    from oomph.diagnose.case import Case
    from oomph.diagnose.model import Diagnosis
    from oomph.evidence.run.data import RunData

#: The word for a whole step.
_ALL = "all"


def asked_of(request: Request) -> Asked:
    """What the script is asked for. Raises UsageError and InputError where the sources say no job."""
    runs, logs, traces, jobs = kinds.sorted_out(request.sources)
    if len(runs) > 1:
        raise UsageError(f"{runs[0]} and {runs[1]} are two runs: a script reproduces one")
    given = (*jobs, *request.job)
    if runs:
        asked = _of_run(request, runs[0], (*logs, *traces), given)
    elif logs:
        asked = _of_log(request, (*logs, *traces), given)
    elif traces:
        asked = _of_trace(request, traces, given)
    else:
        asked = _of_plan(request, given)
    return _predicted(_in_phase(asked, request))


def _in_phase(asked: Asked, request: Request) -> Asked:
    """With the phase of --phase; the start of a process is the loading of a model that is shared among ranks then."""
    if request.phase is not None:
        phase = None if request.phase == _ALL else Phase(request.phase)
        return dataclasses.replace(asked, phase=phase)
    if asked.phase is Phase.UNKNOWN:
        asked = dataclasses.replace(asked, phase=None)
        return asked.also("A whole step is run: nothing says in which phase memory ran out (--phase).")
    if asked.phase is Phase.INIT and asked.job.parallel.strategy != "none":
        asked = dataclasses.replace(asked, phase=Phase.LOAD)
        return asked.also("The failure in the start is that of sharing the model among ranks: load.")
    return asked


def _of_plan(request: Request, given: tuple[str, ...]) -> Asked:
    understood = _understood(request, given)
    asked = _from(understood, (f"The job is that of {', '.join(given)}.",))
    fails = _fails_in(understood.job)
    return dataclasses.replace(asked, phase=fails)


def _of_run(request: Request, name: str, beside: tuple[str, ...], given: tuple[str, ...]) -> Asked:
    """A run of `oomph record`: its own job, or the one that was named, and the phase in which it failed. `beside`: logs
    and snapshots of the same failure."""
    from oomph.cli.verify_named import run_named

    data = run_named(name)
    understood = _understood(request, given) if given else _recorded(request, name, data)
    phase: Phase | None = None
    facts = [f"The job is that of the run {name}."]
    if data.path:
        diagnosis, _ = _diagnosed(request, (str(data.path), *beside), ())
        phase, said = _failure(diagnosis)
        facts += said
    return dataclasses.replace(_from(understood, tuple(facts)), phase=phase)


def _recorded(request: Request, name: str, data: RunData) -> Understood:
    """The job that the run itself recorded, with the flags."""
    from oomph.diagnose.verify.against.recorded_job import recorded_job
    from oomph.job.defaults import with_defaults

    try:
        ran = recorded_job(data)
    except OomphError as error:
        why = str(error).partition(": name the job")[0]
        raise UsageError(
            f"{name}: {why}; --job JOB gives it (a job file, a config.json, or a model's name)"
        ) from None
    job, assumptions = with_defaults(ran.job, ran.said)
    more = [] if _is_said("optimizer.name", ran.said) or _flagged(request, "optimizer") else [_OPTIMIZER]
    if not _is_said("method", ran.said) and not _flagged(request, "method", "lora", "qlora"):
        more.append(_METHOD)
    assumptions = _but_flags(request, assumptions)
    if _open(assumptions):
        raise UsageError(f"{name}: the run did not record {_open(assumptions)}")
    understood = _with_flags(request, job)
    return dataclasses.replace(
        understood,
        assumptions=(*assumptions, *more, *understood.assumptions),
        notes=(*ran.notes, *understood.notes),
        unsupported=(*ran.unsupported, *understood.unsupported),
    )


#: Beginnings of `with_defaults`' sentences, the flags that settle what they are about, and what to call it.
_SETTLED = (
    ("Micro-batch of", ("batch",), "the batch (--batch N)"),
    ("Sequences of", ("seq",), "the length of the sequences (--seq N)"),
    ("Precision:", ("precision",), ""),
    ("Adapters on", ("lora_targets",), ""),
    ("DDP over", ("ddp", "fsdp", "fsdp1", "zero"), ""),
)


def _but_flags(request: Request, assumptions: tuple[str, ...]) -> tuple[str, ...]:
    """Without what a flag says."""
    settled = tuple(start for start, flags, _ in _SETTLED if _flagged(request, *flags))
    return tuple(each for each in assumptions if not settled or not each.startswith(settled))


def _open(assumptions: tuple[str, ...]) -> str:
    """What a script of a job that failed cannot do without, where it was assumed; "" where it is known."""
    missing = [
        words for start, _, words in _SETTLED if words and any(each.startswith(start) for each in assumptions)
    ]
    return " and ".join(missing)


_OPTIMIZER = "The optimizer is AdamW (foreach): the run did not record it (--optimizer)."
_METHOD = "All weights train: the run did not record it (--lora, --qlora)."


def _is_said(path: str, said: frozenset[str]) -> bool:
    return any(path == each or path.startswith(f"{each}.") or each.startswith(f"{path}.") for each in said)


def _flagged(request: Request, *names: str) -> bool:
    return any(request.flags.get(name) for name in names)


def _of_log(request: Request, logs: tuple[str, ...], given: tuple[str, ...]) -> Asked:
    """What `oomph explain` reads: the failure, and the job behind it."""
    from oomph.remedy.log_given import Given
    from oomph.remedy.log_job import job_of

    diagnosis, case = _diagnosed(request, logs, given)
    phase, facts = _failure(diagnosis)
    if case is None:
        if request.phase is None or not given:
            raise UsageError(
                f"Nothing in {', '.join(logs)} failed for lack of memory: name the job (--job) and the phase (--phase) "
                "that the script is to run"
            )
        understood = _understood(request, given)
        return _from(understood, tuple(facts))
    from oomph.remedy.log_given import read_given

    found = job_of(case, read_given(given) if given else Given())
    if isinstance(found, str):
        if not given:
            raise UsageError(_without_end(found) + _FILES)
        # Flags may say what neither the log nor the files do.
        understood = _understood(request, given)
        missing = _open(understood.assumptions)
        if missing:
            raise UsageError(f"{_without_end(found)}; here missing: {missing}")
        # What was missing is there now; what contradicts the log stays to be read.
        against = () if found.startswith("Neither the log") else (found,)
        asked = _from(understood, (*facts, f"The job is that of {', '.join(given)}.", *against))
        return dataclasses.replace(asked, phase=phase)
    understood = _with_flags(request, found.job)
    asked = _from(understood, (*facts, *map(_sentence, found.notes)))
    return dataclasses.replace(asked.also(*_but_flags(request, found.assumptions)), phase=phase)


_FILES = (
    " (a job file, a config.json and the trainer's files, or a model's name; then also --batch and --seq)"
)


def _without_end(sentence: str) -> str:
    return sentence.rstrip(".")


def _of_trace(request: Request, traces: tuple[str, ...], given: tuple[str, ...]) -> Asked:
    """A trace or a snapshot says where memory ran out, and nothing of the job."""
    if len(traces) > 1:
        raise UsageError(f"{traces[0]} and {traces[1]} are two traces: a script reproduces one")
    seen = kinds.trace(traces[0])
    if not given:
        raise UsageError(
            f"{traces[0]} keeps what was allocated, and not the job that did it: --job JOB gives it (a job file, a "
            "config.json and the trainer's files, or a model's name)"
        )
    asked = _from(_understood(request, given), (*seen.facts, f"The job is that of {', '.join(given)}."))
    if seen.world is not None and seen.world != asked.job.parallel.ranks:
        has = f"{asked.job.parallel.ranks:,}: the script has as many as the job"
        fact = f"{seen.world:,} ranks were traced, and the job has {has}."
        asked = dataclasses.replace(asked, facts=(*asked.facts, fact))
    return dataclasses.replace(asked, phase=seen.phase)


def _diagnosed(
    request: Request, paths: tuple[str, ...], given: tuple[str, ...]
) -> tuple[Diagnosis, Case | None]:
    from oomph.api import diagnosed

    stdin = None if sys.stdin is None else sys.stdin.buffer
    diagnosis, case, _ = diagnosed(paths, rank=request.rank, stdin=stdin, job=given or None)
    if request.rank is not None and (diagnosis.incident is None or diagnosis.incident.rank != request.rank):
        raise UsageError(f"--rank {request.rank}: nothing says that memory ran out on it")
    return diagnosis, case


def _failure(diagnosis: Diagnosis) -> tuple[Phase | None, list[str]]:
    """The phase that failed, and sentences about the failure."""
    incident = diagnosis.incident
    if incident is None:
        return None, [diagnosis.summary] if diagnosis.summary else []
    quote = incident.failure.quote
    where = f"{quote.source}, line {quote.line}: " if quote.line else ""
    facts = [f"{where}{diagnosis.summary}"]
    if incident.phase.why:
        facts.append(f"Phase {incident.phase.phase}: {incident.phase.why}")
    return incident.phase.phase, facts


def _from(understood: Understood, facts: tuple[str, ...]) -> Asked:
    return Asked(
        understood.job,
        facts=(*facts, *map(_sentence, understood.notes)),
        assumed=understood.assumptions,
        unsupported=understood.unsupported,
    )


def _sentence(note: str) -> str:
    """With a capital where it begins with a plain word, and a full stop."""
    if note.partition(" ")[0].isalpha():
        note = note[:1].upper() + note[1:]
    return note if note.endswith((".", "!", "?")) else f"{note}."


def _understood(request: Request, inputs: tuple[str, ...]) -> Understood:
    """The job of these inputs and of the flags, as `oomph plan` understands them."""
    from oomph.cli.plan import Request as PlanRequest
    from oomph.cli.plan_job import job_of

    others: dict[str, object] = {
        "explain": False,
        "rank": None,
        "replay": False,
        "output_format": None,
        "output": None,
        "save_job": None,
        "quiet": request.quiet,
        "verbose": False,
        "colour": "never",
        "exit_zero": False,
    }
    return job_of(PlanRequest(inputs=inputs, **request.flags, **others))  # type: ignore[arg-type] # as click read them


def _with_flags(request: Request, job: Job) -> Understood:
    """The job with the flags of the command line: written as a job file and read again, as any other is."""
    from oomph.job.toml import to_toml

    with tempfile.TemporaryDirectory(prefix="oomph-") as folder:
        file = Path(folder) / "job.toml"
        file.write_text(to_toml(job), encoding="utf-8")
        return _understood(request, (str(file),))


def _fails_in(job: Job) -> Phase | None:
    """The phase in which the plan says that memory runs out; None where it fits, or nothing is predicted."""
    from oomph.api import plan_job

    try:
        return plan_job(job).fails_in
    except (UsageError, InputError):
        return None


def _predicted(asked: Asked) -> Asked:
    """With the peaks that a plan predicts, to hold the script's own against."""
    from oomph.api import plan_job
    from oomph.units import format_bytes

    if asked.unsupported:
        return asked
    try:
        plan = plan_job(asked.job, replay=False)
    except OomphError:
        return asked
    if not plan.ranks:
        return asked
    phases = plan.worst.phases
    peaks = [f"{phase} {format_bytes(peak.allocated_bytes)}" for phase, peak in phases.items()]
    fact = f"Allocated at most, as oomph plan predicts it: {', '.join(peaks)}."
    return dataclasses.replace(asked, facts=(*asked.facts, fact))
