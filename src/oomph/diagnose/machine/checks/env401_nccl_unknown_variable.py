"""An NCCL_* variable that NCCL does not read."""

from __future__ import annotations

import re

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import counted, export, in_effect, nccl_version
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Variable
from oomph.evidence.model import Quote
from oomph.hardware.nccl import NcclVariable, family_of, nccl_variables, nearest, torch_variables, version

#: How "NCCL_" is mistyped.
_MISTYPED = ("NCLL_", "NCL_", "NNCL_", "NCCLL_", "NCC_", "NCCL__", "NCCl_", "nccl_")
#: Names that people believe in, and what does it instead.
_INSTEAD = {
    "NCCL_TIMEOUT": "the timeout is an argument of torch.distributed.init_process_group(timeout=...)",
    "NCCL_SOCKET_TIMEOUT": "the timeout is an argument of torch.distributed.init_process_group(timeout=...)",
    "NCCL_DETERMINISTIC": "NCCL_ALGO=Ring with NCCL_PROTO=Simple fixes the order of sums",
    "NCCL_MIN_CHANNELS": "the name is NCCL_MIN_NCHANNELS, with an N",
    "NCCL_MAX_CHANNELS": "the name is NCCL_MAX_NCHANNELS, with an N",
    "NCCL_NET_DISABLE": "NCCL_NET=Socket or NCCL_IB_DISABLE=1 choose the network",
}
#: How names end that scripts make up for themselves: NCCL_CONTAINER, NCCL_TEST_DIR.
_OWN = re.compile(
    r"_(?:CONTAINER|IMAGE|DIR|PATH|HOME|ARGS|OPTS|FLAGS|ENV|CMD|SCRIPT|LOGS?|BIN|EXE|TESTS?|BENCH\w*)\Z"
)
#: The newest NCCL whose names the table has.
_TABLE = (2, 30)
_FIXED = {"NCCL_MIN_CHANNELS": "NCCL_MIN_NCHANNELS", "NCCL_MAX_CHANNELS": "NCCL_MAX_NCHANNELS"}


class NcclUnknownVariable(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV401"
    cause = "nccl_unknown_variable"
    name = "nccl-unknown-variable"
    means = (
        "NCCL asks for the variables that it knows and never looks at others: a name that is mistyped, that it does "
        "not know yet or no longer, changes nothing and is not reported. Names of plugins (FasTrak, TCPX, OFI, SHARP), "
        "of PyTorch and of builds are not NCCL's own and are left alone."
    )
    decisive_evidence = (
        "The name is in none of NCCL's releases from 2.3.5 to 2.30.7, or not in the installed one."
    )
    first_action = "Correct the name or remove the line."
    verify = "With NCCL_DEBUG=INFO, NCCL prints a line for each variable that it took from the environment."
    wrong_advice = "Setting more variables of the same kind: each changes what can be measured of the next."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        problems: dict[str, Problem] = {}
        known = 0
        untold = ""
        beyond = _beyond_the_table(environment)
        for one in in_effect(environment):
            if not one.name.startswith(("NCCL_", *_MISTYPED)) or one.name in problems:
                continue
            if one.name in torch_variables() or family_of(one.name):
                known += 1
                continue
            variable = nccl_variables().get(one.name)
            if variable is None and _OWN.search(one.name) and not _meant(one.name):
                continue  # a name of the script's own, for itself
            problem = _unknown(one) if variable is None else _of_another_release(environment, one, variable)
            if problem is not None and variable is None and beyond and problem.certainty is Certainty.LIKELY:
                untold = f"{one.name} may be a name of {beyond}"
            elif problem is not None:
                problems[one.name] = problem
            else:
                known += 1
        if problems:
            return tuple(problems.values())
        if untold:
            return CouldNotTell(untold)
        if known:
            return Clear(f"{counted(known, 'name')} of NCCL or its plugins: all of them are known")
        return NotHere()


def _beyond_the_table(environment: Environment) -> str:
    """What may know more names than the table: RCCL, or a newer NCCL."""
    if any(build.hip for build in environment.torch):
        return "RCCL, which has some of its own"
    installed = nccl_version(environment)
    if installed is not None and installed[0][:2] > _TABLE:
        return f"NCCL {'.'.join(map(str, installed[0]))}, which is newer than the table"
    return ""


def _unknown(one: Variable) -> Problem:
    instead = _INSTEAD.get(one.name, "")
    typo = next((prefix for prefix in _MISTYPED if one.name.startswith(prefix)), "")
    meant = _FIXED.get(one.name) or ("" if instead else _meant(_spelled(one.name, typo)))
    value = "" if one.value is None else one.value
    if instead:
        fix = f"Remove it: {instead}." if one.name not in _FIXED else f"{instead[0].upper()}{instead[1:]}."
    elif meant:
        fix = f"If {meant} is meant, write that; else remove it."
    else:
        fix = "Remove it."
    return Problem(
        says=f"NCCL has no variable {one.name}" + (f"; the nearest is {meant}." if meant else "."),
        does="Nothing: NCCL never asks for it.",
        fix=fix,
        paste=export(meant, value) if meant and value else f"unset {one.name}",
        subject=one.name,
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN if meant or instead else Certainty.LIKELY,
        evidence=(one.quote,),
    )


def _meant(name: str) -> str:
    """The name that was probably meant: PyTorch's of the same words, or NCCL's nearest."""
    torchs = f"TORCH_{name}"
    return torchs if torchs in torch_variables() else nearest(name, nccl_variables())


def _spelled(name: str, typo: str) -> str:
    return "NCCL_" + name[len(typo) :].upper().lstrip("_") if typo else name


def _of_another_release(environment: Environment, one: Variable, variable: NcclVariable) -> Problem | None:
    evidence: tuple[Quote, ...] = (one.quote,)
    installed = nccl_version(environment)
    last = version(variable.until)
    if installed is None:
        if last is None or last >= (2, 18):
            return None
        what = f"{one.name} was last read by NCCL {variable.until}"
    else:
        numbers, quote = installed
        shown = ".".join(str(part) for part in numbers)
        evidence = (one.quote, quote)
        first = version(variable.since)
        if last is not None and numbers[:3] > last:
            what = f"{one.name} was last read by NCCL {variable.until}, and {shown} is installed"
        elif first is not None and numbers[:3] < first and first[:2] > numbers[:2]:
            what = f"{one.name} is new in NCCL {variable.since}, and {shown} is installed"
        else:
            return None
    return Problem(
        says=f"{what}.",
        does="Nothing: this release of NCCL does not ask for it.",
        fix=f"Use {variable.renamed} in its place, or remove it." if variable.renamed else "Remove it.",
        paste=f"unset {one.name}",
        subject=one.name,
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN if installed is not None else Certainty.LIKELY,
        evidence=evidence,
    )
