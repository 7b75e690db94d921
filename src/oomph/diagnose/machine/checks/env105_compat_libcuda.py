"""A libcuda of a compatibility package, or a stub, before the driver's own."""

from __future__ import annotations

import re

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import kind, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.paths import library_path
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Variable
from oomph.evidence.model import Quote
from oomph.hardware.drivers import newest_cuda, numbers

_ERRORS = (
    (
        "803",
        re.compile(
            r"unsupported display driver / cuda driver combination|\berror 803\b|SystemDriverMismatch", re.I
        ),
    ),
    (
        "804",
        re.compile(
            r"forward compatibility was attempted on non|\berror 804\b|CompatNotSupportedOnDevice", re.I
        ),
    ),
    ("34", re.compile(r"CUDA driver is a stub library|StubLibrary|STUB_LIBRARY", re.I)),
)
_MISMATCH = re.compile(r"driver/library version mismatch|api mismatch", re.IGNORECASE)
#: NGC's images name it always and create it only where the driver needs it.
_NGC = "/usr/local/cuda/compat/lib"
#: Where the driver's own libcuda is: earlier in the path, it is found first.
_OWN = re.compile(
    r"(?:/usr)?/lib(?:64)?(?:/(?:x86_64|aarch64)-linux-gnu)?(?:/nvidia(?:-current)?)?\Z|/usr/lib/wsl/lib\Z"
    r"|/usr/local/nvidia/lib(?:64)?\Z"
)


class CompatLibcuda(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV105"
    cause = "compat_libcuda"
    name = "compat-libcuda-in-the-way"
    means = (
        "A libcuda that is not the driver's is found before it: that of a cuda-compat package on a machine which does "
        "not need or support it, or the stub that the toolkit has for linking."
    )
    decisive_evidence = (
        "CUDA's errors 803 and 804 (or 34 for a stub); a folder named compat or stubs in LD_LIBRARY_PATH, against what "
        "the driver knows and the kind of the card."
    )
    first_action = "Take the folder out of LD_LIBRARY_PATH, or the cuda-compat package out of the image."
    verify = (
        "ldconfig -p and LD_DEBUG=libs show the driver's libcuda.so.1, and torch.cuda.is_available() is True."
    )
    wrong_advice = (
        "Installing a newer cuda-compat: it works on data-centre cards only, and only where the driver is older than "
        "the "
        "build needs. On GeForce the driver itself has to be newer."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        said = _said(environment)
        if said is not None:
            return answer([said])
        problems: list[Problem] = []
        clear: list[str] = []
        for folder, variable in library_path(environment):
            if _OWN.match(folder):
                break
            last = folder.rpartition("/")[2]
            if last == "stubs":
                problems.append(_stub(folder, variable))
            elif last == "compat" or folder.endswith(("/compat/lib", "/compat/lib.real")):
                _compat(environment, folder, variable, problems, clear)
        return answer(problems, clear)


def _said(environment: Environment) -> Problem | None:
    if any(_MISMATCH.search(one.text) for one in environment.errors):
        return None  # the same errors follow from that, and ENV104 says so
    for number, pattern in _ERRORS:
        quote = next((one for one in environment.errors if pattern.search(one.text)), None)
        if quote is not None:
            return _by_error(environment, number, quote)
    return None


def _by_error(environment: Environment, number: str, quote: Quote) -> Problem:
    folders = [
        (folder, one) for folder, one in library_path(environment) if "compat" in folder or "stubs" in folder
    ]
    where = f" LD_LIBRARY_PATH has {folders[0][0]}." if folders else ""
    quotes = (quote, *(one.quote for _, one in folders[:1]))
    if number == "34":
        says = "CUDA's error 34: the libcuda that was loaded is the toolkit's stub, not the driver's."
        fix = "Take the stubs folder out of LD_LIBRARY_PATH at run time."
    elif number == "804":
        says = (
            "CUDA's error 804: a libcuda newer than the kernel driver was loaded, and this card does not support "
            "that."
        )
        fix = (
            "Install a newer driver; until then, take the cuda-compat folder out of LD_LIBRARY_PATH or of the image. "
            "If "
            "the driver's package was updated a moment ago, reboot first: the same error follows from that."
        )
    else:
        says = "CUDA's error 803: the libcuda that was loaded does not fit the kernel driver."
        fix = (
            "Take the cuda-compat folder, or a libcuda of the image, out of the way of the driver's own. If the "
            "driver's "
            "package was updated a moment ago, reboot first."
        )
    return Problem(
        says + where,
        does="No CUDA call succeeds: torch.cuda.is_available() is False.",
        fix=fix,
        paste='ldconfig -p | grep "libcuda.so.1"; echo "$LD_LIBRARY_PATH"; cat /proc/driver/nvidia/version',
        subject=f"error {number}",
        evidence=quotes,
    )


def _stub(folder: str, variable: Variable) -> Problem:
    return Problem(
        f"LD_LIBRARY_PATH has {folder}, where the toolkit keeps libraries for linking that do nothing.",
        does="A libcuda.so.1 in there (many link one, to compile without a driver) is loaded in place of the "
        "driver's: no "
        "GPU is found. Without one nothing happens.",
        fix="Give the folder to the linker (LIBRARY_PATH) and not to LD_LIBRARY_PATH.",
        subject="LD_LIBRARY_PATH",
        severity=Severity.WARNING,
        certainty=Certainty.POSSIBLE,
        evidence=(variable.quote,),
    )


def _compat(
    environment: Environment, folder: str, variable: Variable, problems: list[Problem], clear: list[str]
) -> None:
    cards = nvidia_cards(environment)
    kinds = {kind(one) for one in cards}
    driver = environment.driver
    # What the driver alone knows: nvidia-smi's figure may already be the package's.
    own = newest_cuda(driver.value) if driver is not None else ""
    its = re.search(r"cuda-(\d{1,2}\.\d{1,2})", folder)
    if folder.startswith(_NGC):
        clear.append(f"{folder} in LD_LIBRARY_PATH is NVIDIA's images' own; no error speaks of it")
        return
    if "consumer" in kinds:
        problems.append(
            Problem(
                f"LD_LIBRARY_PATH has {folder}: the libcuda of a cuda-compat package, before the driver's. GeForce "
                "cards "
                f"({next(one.name for one in cards if kind(one) == 'consumer')}) do not support it.",
                does="Where that libcuda is newer than the driver, every CUDA call fails with error 804; where it is "
                "older, with 803.",
                fix="Take the folder out of LD_LIBRARY_PATH; if the build needs a newer driver, install that.",
                subject="LD_LIBRARY_PATH",
                certainty=Certainty.LIKELY,
                evidence=(variable.quote,),
            )
        )
    elif its is not None and own and numbers(its[1])[:2] <= numbers(own)[:2]:
        problems.append(
            Problem(
                f"LD_LIBRARY_PATH has {folder}: the libcuda of CUDA {its[1]}, before that of the driver "
                f"({driver.value if driver else ''}), which knows CUDA {own} itself.",
                does="An older libcuda than the kernel driver's fails with error 803, or hides what the driver can do.",
                fix="Take the folder out of LD_LIBRARY_PATH: this driver needs no compatibility package.",
                subject="LD_LIBRARY_PATH",
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY,
                evidence=(variable.quote,),
            )
        )
    elif its is not None and own and kinds == {"datacenter"}:
        clear.append(
            f"{folder} lets driver {driver.value if driver else ''} run CUDA {its[1]} builds on these cards"
        )
    else:
        problems.append(
            Problem(
                f"LD_LIBRARY_PATH has {folder}: the libcuda of a cuda-compat package, before the driver's.",
                does="It is right where the driver is older than the build needs and the cards are data-centre ones; "
                "on other cards, and beside a newer driver, CUDA can fail with error 803 or 804.",
                fix="Compare the driver with what the build needs; if it is new enough, take the folder out.",
                subject="LD_LIBRARY_PATH",
                severity=Severity.WARNING,
                certainty=Certainty.POSSIBLE,
                evidence=(variable.quote,),
            )
        )
