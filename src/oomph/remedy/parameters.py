"""The numbers of parameters that a log prints, against those of the model that it is taken to train."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from oomph.diagnose.case import Case
from oomph.job.families import architecture
from oomph.job.model import Job
from oomph.predict.plan import plan

#: Counts are printed with as few digits as "6.2 B": half of the last one is 1 % of the smallest.
_ROUNDED = 0.01
#: What people adapt (PEFT's guides, defaults of axolotl and LLaMA-Factory), tried where the log prints a count alone.
_TARGETS = (
    ("all-linear",),
    ("q_proj", "v_proj"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj"),
    ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
)


def with_counts(case: Case, job: Job) -> Job | str:
    """The job, with the adapters that the printed count of trained parameters proves; a sentence where what is printed
    is not what this model has. Raises UsageError as `plan` does."""
    total = architecture(job.model).total
    printed = case.number("total_params")
    trained = case.number("trainable_params")
    ranks = max(1, job.parallel.ranks)
    lora = job.method.lora
    if (
        printed is not None
        and not _is(printed, (total, total // ranks))
        and not _more_by_adapters(printed, job)
    ):
        return (
            f"The log prints {printed:,} parameters, and {job.model.name or job.model.family} has {total:,}: it is "
            "another model."
        )
    if trained is None:
        return job
    if lora is None:
        if _is(trained, (total, total // ranks)):
            return job
        return (
            f"The log prints {trained:,} parameters that train, of {total:,}, and does not say which: --job FILE "
            "gives them."
        )
    for candidate in _candidates(job):
        count = plan(candidate, replay=False).trainable
        rounded = trained % 1000 == 0 and _is(count, (trained,))
        if rounded or trained in (count, -(-count // ranks)):
            return candidate
    return (
        f"The log prints {trained:,} parameters that train; adapters of rank {lora.rank} on what is usually adapted "
        "have another number: --job FILE gives them."
    )


def _candidates(job: Job) -> Iterator[Job]:
    """The job, and where nobody says what is adapted, the job with other adapters."""
    lora = job.method.lora
    assert lora is not None
    yield job
    for targets in _TARGETS:
        if targets != lora.targets:
            yield replace(job, method=replace(job.method, lora=replace(lora, targets=targets)))


def _is(printed: int, known: tuple[int, ...]) -> bool:
    """Whether a printed count is one of those, as far as it was rounded."""
    return any(abs(printed - each) <= _ROUNDED * each for each in known)


def _more_by_adapters(printed: int, job: Job) -> bool:
    """PEFT counts the adapters among all parameters; 4-bit weights count half of their elements in old versions."""
    if job.method.lora is None:
        return False
    total = architecture(job.model).total
    return total < printed <= total * 1.1
