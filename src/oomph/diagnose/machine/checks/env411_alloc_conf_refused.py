"""Allocator settings that PyTorch refuses."""

from __future__ import annotations

from oomph.diagnose.machine.alloc_settings import corrected, options_of, read_by_torch, refusals
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem
from oomph.diagnose.machine.settings import export
from oomph.hardware.alloc_conf import alloc_options
from oomph.hardware.nccl import version as numbers


class AllocConfRefused(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV411"
    cause = "alloc_conf_refused"
    name = "alloc-conf-refused"
    means = (
        "PyTorch parses PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF) strictly when its allocator is first used and "
        "raises for what it does not understand: an option that this version does not have, `true` for `True`, `=` "
        "for `:`, a number outside the range. The job ends at its first CUDA call."
    )
    decisive_evidence = "The value, parsed by the rules of the installed version."
    first_action = (
        "Write option:value pairs with commas between them: expandable_segments:True,max_split_size_mb:128."
    )
    verify = "`python -c 'import torch; torch.zeros(1, device=\"cuda\")'` passes with the variable set."
    wrong_advice = "Upgrading PyTorch or the driver: the text of the variable is what is wrong."

    def check(self, asked: Asked) -> Answer:
        read = read_by_torch(asked.environment)
        if read is None:
            return NotHere()
        one, text = read.variable, read.variable.value
        if text is None:
            return CouldNotTell(
                f"the text does not say what {one.name} becomes: `echo ${one.name}` in the job does"
            )
        answers = refusals(text, read.torch)
        reasons = {version: reason for version, reason in answers.items() if reason}
        if not reasons:
            whose = f"PyTorch {read.torch[0]}.{read.torch[1]}" if read.torch else "PyTorch from 2.1 to 2.14"
            return Clear(f"{whose} takes {one.name}={text}")
        if len(reasons) < len(answers):
            (major, minor), reason = next(iter(reasons.items()))
            return CouldNotTell(
                f"PyTorch's version is not told: {major}.{minor} refuses {one.name}={text} ({reason}), others take it"
            )
        version, reason = list(reasons.items())[-1]
        whose = f"PyTorch {version[0]}.{version[1]}" if read.torch else "Every PyTorch from 2.1 to 2.14"
        right = corrected(text, read.torch)
        newer = _newer(text, version)
        if newer:
            since = alloc_options()[newer].since
            reason = f"{reason.rstrip('.')}. {newer} came with PyTorch {since}"
            fix = f"Remove {newer}, or install PyTorch {since} or newer."
        else:
            fix = f"Write {one.name}={right}." if right else "Correct the text, or remove the variable."
        return (
            Problem(
                says=f"{whose} refuses {one.name}={text}: {reason.rstrip('.')}.",
                does="It raises at the first CUDA call, and the job ends there.",
                fix=fix,
                paste=export(one.name, right) if right else f"unset {one.name}",
                subject=one.name,
                evidence=(one.quote,),
            ),
        )


def _newer(text: str, version: tuple[int, int]) -> str:
    """The first option that came after this version, "" where none did."""
    for name in options_of(text):
        option = alloc_options().get(name)
        since = numbers(option.since) if option is not None else None
        if option is not None and since is not None and since > version:
            return name
    return ""
