"""What a diagnosis claims, in the words of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.diagnose.model import Diagnosis
from oomph.evidence.model import Kind

#: Failure texts that blame the device. Host memory, /dev/shm and kills do not.
DEVICE_KINDS = frozenset(
    {
        Kind.DEVICE_OOM,
        Kind.DEVICE_OOM_BARE,
        Kind.DISGUISED,
        Kind.NCCL_OOM,
        Kind.MANAGED_OOM,
        Kind.UNIFIED_OOM,
    }
)


@dataclass(frozen=True)
class Claims:
    """One log's answer. `crash` is the exception's text when there is no answer; all the rest is empty then.

    `format` is "none" where nothing is reported. `numbers` are those printed in the reported message: what was
    derived by an identity is no claim about the message. `causes` are those of the findings, best first.
    """

    outcome: str = ""
    exit_code: int | None = None
    format: str = "none"
    device_failure: bool = False
    device_mentions: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)
    rank: int | None = None
    first_rank: int | None = None
    phase: str = "unknown"
    causes: tuple[str, ...] = ()
    first_action: str = ""
    crash: str = ""


def claims_of(diagnosis: Diagnosis) -> Claims:
    """Reads the claims off a diagnosis.

    The phase is the incident's; where nothing failed for lack of memory, that of the error which ended the job. The
    rank is the incident's, or the one that the diagnosis names as the first to fail.
    """
    incident = diagnosis.incident
    verdict = incident.phase if incident else diagnosis.phase
    phase = verdict.phase if verdict else "unknown"
    rank = incident.rank if incident else None
    return Claims(
        outcome=diagnosis.outcome.value,
        exit_code=diagnosis.exit_code,
        format=incident.failure.format if incident else "none",
        device_failure=(
            diagnosis.outcome.value == "failed"
            and incident is not None
            and incident.failure.kind in DEVICE_KINDS
        ),
        device_mentions=sum(each.failure.kind in DEVICE_KINDS for each in diagnosis.incidents),
        numbers={name: size.bytes for name, size in incident.failure.numbers.items()} if incident else {},
        rank=diagnosis.ranks.first if rank is None else rank,
        first_rank=diagnosis.ranks.first,
        phase=str(phase),
        causes=tuple(finding.cause for finding in diagnosis.findings),
        first_action=diagnosis.advice.first.code if diagnosis.advice else "",
    )
