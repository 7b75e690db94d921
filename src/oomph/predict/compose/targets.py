"""Which modules PEFT's `target_modules` names.

Source: peft/tuners/tuners_utils.py, check_target_module_exists: names that a module's whole name is or ends with
after a point, or one pattern that the whole name fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from oomph.errors import UsageError
from oomph.job.families import architecture
from oomph.job.model import Job

#: What only a pattern of names has, as PEFT takes one in place of names.
_PATTERN = re.compile(r"[*+?()|\[\]\\^$]")


def names(targets: Sequence[str], module: str) -> bool:
    """Whether a module, by its whole name, is one of the targets. Raises UsageError for what is no pattern."""
    if len(targets) == 1 and _PATTERN.search(targets[0]):
        try:
            return re.fullmatch(targets[0], module) is not None
        except re.error as error:
            raise UsageError(
                f"The pattern of adapters' targets, {targets[0][:60]!r}, is none: {error}."
            ) from error
    return any(module == each or module.endswith(f".{each}") for each in targets)


def missing(job: Job) -> Iterator[str]:
    """A pattern that fits nothing: without adapters a plan would be that of no training."""
    lora = job.method.lora
    if lora is None or not any(_PATTERN.search(each) for each in lora.targets):
        return
    linear = (name for name, each in architecture(job.model).named() if each.kind == "linear")
    if not any(names(lora.targets, each.removesuffix(".weight")) for each in linear):
        yield f"adapters' targets {', '.join(lora.targets)[:60]!r}, which fit no module"


def names_all(targets: Sequence[str], modules: Sequence[str]) -> bool:
    """The same of one module in every layer. Raises UsageError, beginning with "unsupported:", where it is a target in
    some layers only."""
    found = {names(targets, each) for each in modules}
    if len(found) > 1:
        raise UsageError(
            f"unsupported: adapters on {modules[0].rpartition('.')[2]} in some of the layers; `oomph trace` runs the "
            "training script itself."
        )
    return found == {True}
