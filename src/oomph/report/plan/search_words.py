"""The words and rows of the largest that fits, and of machines compared."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.job.model import Job
from oomph.remedy.largest import Largest
from oomph.remedy.machines import MachineFit
from oomph.report.plan.fit_words import seconds
from oomph.report.plan.job_words import tidy
from oomph.report.plan.words import Rows
from oomph.units import format_bytes

_WHAT = {"batch": "samples per GPU and forward", "seq": "tokens per sample", "params": "parameters"}


def largest_headline(found: Largest) -> str:
    """One sentence: the largest that fits."""
    what = _WHAT[found.what]
    if found.value is None:
        return "Nothing says what the card has: give --gpu or --capacity"
    room = format_bytes(found.room_bytes or 0)
    if found.value == 0:
        least = {"batch": "one sample", "seq": "128 tokens", "params": "one layer"}[found.what]
        need = "" if found.next_bytes is None else f": {format_bytes(found.next_bytes)} are needed"
        return f"Not even {least} fits in {room}{need}"
    layers = f" in {found.layers:,} layers of this width" if found.layers is not None else ""
    need = "" if found.peak_bytes is None else f", with {format_bytes(found.peak_bytes)} of {room}"
    return f"The largest that fits: {found.value:,} {what}{layers}{need}"


def largest_notes(found: Largest, job: Job) -> list[str]:
    """What one step further needs, and what was asked."""
    told = []
    if found.value and found.next_bytes is not None:
        told.append(f"One step further needs {format_bytes(found.next_bytes)}, whose upper end does not fit.")
    if found.value and found.next_bytes is None:
        told.append(
            "One step further is no job of this model (its positions end there), or the search ended."
        )
    if found.what == "batch" and found.value:
        told.append(f"The job has {job.batch.micro:,}; everything else stays as it is.")
    if found.what == "seq" and found.value:
        told.append(f"The job has {job.batch.sequence or 0:,}; lengths go in steps of 128.")
    return told


def machines_headline(found: Sequence[MachineFit]) -> str:
    """One sentence: on how many it fits, and which is the smallest."""
    fitting = [each for each in found if each.fits]
    if not found:
        return "No machine type of these clouds is known"
    if not fitting:
        return f"It surely fits on none of {len(found):,} machine types"
    first = fitting[0].machine
    cards = f"{first.count:,} x {first.gpu}"
    return f"It fits on {len(fitting):,} of {len(found):,} machine types, the fewest GPUs with {first.name} ({cards})"


def machine_rows(found: Sequence[MachineFit], *, everything: bool = True) -> Rows:
    """Heads and one row for each GPU and number of them where it fits or may; with `everything` elsewhere too."""
    rows: Rows = [("GPUs", "needs", "of", "step", "", "machine types")]
    for group in _alike(found):
        each = group[0]
        if each.peak_bytes is None or each.capacity_bytes is None or each.cost is None:
            continue
        if each.fits is False and not everything:
            continue
        verdict = {True: "fits", None: "may fit", False: "does not"}[each.fits]
        rows.append(
            (
                _cards(each),
                format_bytes(each.peak_bytes),
                format_bytes(each.capacity_bytes),
                seconds(each.cost.seconds),
                verdict if each.same_batch else f"{verdict} *",
                _names(group),
            )
        )
    return rows


def machine_rest(found: Sequence[MachineFit]) -> str:
    """Where it does not fit, as one sentence; "" where it fits everywhere."""
    groups = [group for group in _alike(found) if group[0].fits is False and not group[0].refused]
    listed = [f"{_cards(group[0])} ({format_bytes(group[0].peak_bytes or 0)} needed)" for group in groups]
    return f"It does not fit on {', '.join(listed)}." if listed else ""


def _alike(found: Sequence[MachineFit]) -> list[list[MachineFit]]:
    """Those that were predicted, with the same GPUs together, in their order."""
    groups: dict[tuple[str, int], list[MachineFit]] = {}
    for each in found:
        if not each.refused:
            groups.setdefault((each.machine.gpu, each.machine.count), []).append(each)
    return list(groups.values())


def _cards(each: MachineFit) -> str:
    return f"{each.machine.count} x {each.machine.gpu}"


def _names(group: Sequence[MachineFit]) -> str:
    """Machine types by cloud: "a3-highgpu-8g, a3-megagpu-8g (Google Cloud); ..."."""
    clouds: dict[str, list[str]] = {}
    for each in group:
        clouds.setdefault(each.machine.provider, []).append(each.machine.name)
    return "; ".join(f"{', '.join(names)} ({cloud})" for cloud, names in clouds.items())


def machine_notes(found: Sequence[MachineFit]) -> list[str]:
    """What was left out, and what the numbers are."""
    told = [
        (
            "One machine of each type; data ranks are its GPUs (DDP, unless the job says how they share the work), and "
            "accumulation keeps the samples of a step where it can."
        ),
        "The time of a step is an estimate for comparing, not a measurement; prices are not known here.",
    ]
    if not all(each.same_batch for each in found):
        told.append("* A step there has another number of samples: its GPUs do not divide them.")
    older = sorted({each.machine.gpu for each in found if each.in_fp16})
    if older:
        told.append(
            f"Planned in fp16 there, as the cards have no bf16: {', '.join(older)} (nothing says the precision: "
            "--precision)."
        )
    if any(each.machine.count > 1 for each in found):
        told.append("What there is of a card is less by the most that NCCL takes.")
    refused: dict[str, int] = {}
    for each in found:
        if each.refused:
            refused[each.refused] = refused.get(each.refused, 0) + 1
    return told + [f"{_types(count)} left out: {tidy(why)}" for why, count in refused.items()]


def _types(count: int) -> str:
    return "1 machine type" if count == 1 else f"{count:,} machine types"
