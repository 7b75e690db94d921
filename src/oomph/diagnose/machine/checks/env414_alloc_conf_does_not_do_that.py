"""Allocator settings that do something else than is believed of them."""

from __future__ import annotations

from oomph.diagnose.machine.alloc_settings import options_of, parsed, read_by_torch
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Variable
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import MIB


class AllocConfDoesNotDoThat(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV414"
    cause = "alloc_conf_does_not_do_that"
    name = "alloc-conf-does-not-do-that"
    means = (
        "max_split_size_mb frees nothing: it keeps large cached blocks whole, which helps some fragmentation and "
        "can raise what is reserved. garbage_collection_threshold works only where a share of the memory was set as a "
        "limit. per_process_memory_fraction makes no room: it is a cap, and brings the error earlier."
    )
    decisive_evidence = "The option is set, in the variable that PyTorch reads."
    first_action = (
        "Measure with and without it: torch.cuda.memory_reserved() and memory_allocated() at the peak."
    )
    verify = "The peak of what is reserved falls; if it does not, the option is of no use to this job."
    wrong_advice = "max_split_size_mb:32 or a lower fraction as the first thing to try when memory runs out."

    def check(self, asked: Asked) -> Answer:
        read = read_by_torch(asked.environment)
        if read is None:
            return NotHere()
        one, text = read.variable, read.variable.value
        if text is None:
            return CouldNotTell(f"the text does not say what {one.name} becomes")
        settings = parsed(text, read.torch)
        if settings is None or settings.backend == "cudaMallocAsync":
            return NotHere()  # ENV411, ENV412
        problems = list(_problems(one, settings, options_of(text)))
        return (
            tuple(problems)
            if problems
            else Clear(f"{one.name}={text} has no option that is known for being misunderstood")
        )


def _problems(one: Variable, settings: AllocatorSettings, options: dict[str, str]) -> list[Problem]:
    found: list[Problem] = []
    if settings.fraction is not None and settings.fraction < 1.0:
        found.append(
            _problem(
                one,
                f"per_process_memory_fraction:{settings.fraction:g} caps PyTorch at that share of every GPU.",
                f"The other {100 - 100 * settings.fraction:g} % is out of PyTorch's reach: requests fail although the "
                "card has room, with `allowed` in the message.",
                "Remove it, unless another process of yours needs the rest.",
                Severity.WARNING,
            )
        )
    if settings.max_split_size_bytes is not None and not settings.expandable_segments:
        size = settings.max_split_size_bytes // MIB
        found.append(
            _problem(
                one,
                f"max_split_size_mb:{size} frees no memory: cached blocks above {size} MiB are no longer split.",
                "It helps where large blocks were cut up by small requests, and can raise what is reserved elsewhere.",
                "Try expandable_segments:True first, and keep whichever lowers reserved memory.",
                Severity.NOTE,
            )
        )
    if "garbage_collection_threshold" in options and settings.fraction is None:
        found.append(
            _problem(
                one,
                "garbage_collection_threshold works only where a memory fraction was set, and this variable sets none.",
                "Unless the script calls torch.cuda.set_per_process_memory_fraction, it does nothing at all.",
                "Remove it.",
                Severity.NOTE,
                Certainty.LIKELY,
            )
        )
    return found


def _problem(
    one: Variable,
    says: str,
    does: str,
    fix: str,
    severity: Severity,
    certainty: Certainty = Certainty.CERTAIN,
) -> Problem:
    return Problem(
        says=says,
        does=does,
        fix=fix,
        paste=f"unset {one.name}",
        subject=one.name,
        severity=severity,
        certainty=certainty,
        evidence=(one.quote,),
    )
