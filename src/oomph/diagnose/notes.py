"""What a reader must know about the input and its numbers before trusting them."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.case import Case
from oomph.evidence.model import Evidence, Kind
from oomph.units import format_bytes

#: A note of a diagnosis without findings when not all rules were asked.
RULES_LEFT_OUT = "Rules were left out (--select/--ignore); the others find no cause."


def notes_of(evidence: Evidence, case: Case | None, dropped: Sequence[str]) -> list[str]:
    """One sentence each: odd input, numbers that cannot be, values that are not sizes, what was left out."""
    notes = list(evidence.notes)
    notes.extend(dropped)
    if case is None:
        return notes
    failure = case.failure
    if failure.truncated:
        notes.append("The message is cut off: what it printed after the cut is unknown.")
    if "damaged_size" in failure.artefacts:
        notes.append("The message prints a size that is none (negative, zero or too long): it is left out.")
    if "nvml_2_64" in failure.artefacts:
        notes.append(
            "17179869184.00 GiB is 2^64 - 1 bytes: NVML could not tell (WSL2); the figure is ignored."
        )
    if "process_0_bytes" in failure.artefacts:
        notes.append(
            "`this process has 0 bytes` means that NVML could not see the process (a container); it is ignored."
        )
    if "no_limit_2_64" in failure.artefacts:
        notes.append("The PyTorch limit of 17179869184.00 GiB is 2^64 - 1: no memory fraction was set.")
    around = case.neighbours
    if around.self_pid is not None and failure.processes:
        notes.append(
            f"Process {around.self_pid} is this process as seen from outside its container "
            f"({format_bytes(around.self_bytes or 0)}, what PyTorch reserved and a context), not a neighbour."
        )
    for problem in case.ledger.problems:
        windows = case.platform in ("windows", "wsl2")
        shared = problem.code.startswith(("capacity-below", "capacity-"))
        reason = (
            "; Windows counts shared system memory in it"
            if windows and shared
            else "; the log is damaged or made up"
        )
        notes.append(f"{problem.text}{reason}.")
    if case.kind is Kind.DEVICE_OOM and case.ledger.free_bytes == 0 and case.platform == "windows":
        notes.append("0 bytes free is ordinary on Windows and proves nothing.")
    return notes
