"""How Slurm says that a job is doing, and what that means for a task."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import submitit

#: Job states after which nothing happens any more, and what they mean for a task (sacct(1), "JOB STATE CODES").
#: COMPLETED and FAILED come from the job's own exit code: with a result they mean nothing, without one it is lost.
FINAL = {
    "BOOT_FAIL": "lost",
    "CANCELLED": "lost",
    "COMPLETED": "lost",
    "DEADLINE": "seconds",
    "FAILED": "lost",
    "NODE_FAIL": "lost",
    "OUT_OF_MEMORY": "memory",
    "PREEMPTED": "lost",
    "REVOKED": "lost",
    "TIMEOUT": "seconds",
    # submitit's words for processes of this machine, which stand in for a cluster.
    "FINISHED": "lost",
    "INTERRUPTED": "lost",
}
#: After these a job that began has left a result, as long as its node is there.
WRITE_RESULTS = frozenset(("CANCELLED", "COMPLETED", "FAILED", "FINISHED"))
#: These say why a job that was told to end was told so.
TOLD_TO_END = FINAL.keys() - {"COMPLETED", "FAILED", "FINISHED", "OUT_OF_MEMORY"}
#: What they say to the user.
SENTENCES = {
    "BOOT_FAIL": "its node did not boot",
    "CANCELLED": "somebody cancelled the job",
    "COMPLETED": "the job ended without leaving a result",
    "DEADLINE": "the job's deadline in Slurm was over",
    "FAILED": "the job ended without leaving a result",
    "NODE_FAIL": "a node of the job failed",
    "OUT_OF_MEMORY": "Slurm ended it because it ran out of the job's main memory",
    "PREEMPTED": "Slurm took the job's nodes back (preemption)",
    "REVOKED": "another cluster of the federation took the job",
    "TIMEOUT": "the job's time in Slurm was over",
    "FINISHED": "the job ended without leaving a result",
    "INTERRUPTED": "the job was killed",
}


def state_of(job: Any) -> str:
    """The state of a job of submitit's, "UNKNOWN" where nobody tells it. Slurm is asked each time."""
    if not isinstance(job, submitit.SlurmJob):
        return str(job.state)
    return _word(str(job.get_info(mode="force").get("State") or "")) or _by_scontrol(job.job_id) or "UNKNOWN"


def _by_scontrol(job_id: str) -> str:
    """Where there is no accounting, the controller knows a job until some minutes after its end."""
    try:
        done = subprocess.run(  # noqa: S603
            ["scontrol", "show", "job", "-o", job_id],  # noqa: S607 - Slurm's own, wherever it is installed
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\bJobState=(\w+)", done.stdout)
    return found[1] if found else ""


def _word(said: str) -> str:
    """Texts as "CANCELLED by 1000" and "OUT_OF_ME+" are states too."""
    word = said.strip().partition(" ")[0].upper()
    if word.endswith("+"):
        return next((state for state in FINAL if state.startswith(word[:-1])), word)
    return word
