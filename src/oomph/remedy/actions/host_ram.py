"""More host memory, or less use of it."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, Finding, Step
from oomph.evidence.model import Kind
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.actions.collect_kernel_log import KERNEL_LOG
from oomph.units import format_bytes

_LOADER = re.compile(r"DataLoader worker|utils[/\\]data[/\\]", re.IGNORECASE)
_OFFLOAD = re.compile(r"off_?load|cpu_?adam", re.IGNORECASE)
_LOOK_WINDOWS = "Get-Process | Sort-Object WorkingSet64 -Descending | Select-Object -First 10"
_TO_HOST = re.compile(r"\.cpu\(|\.numpy\(|torch\.cat|np\.concatenate|\.append\(")


class HostRam(Action):
    """One measure, chosen by what the log shows."""

    code = "host-ram"
    title = "Give the job more host memory, or make it use less"

    def step(self, case: Case, finding: Finding) -> Step:
        if case.kind is Kind.KILLED and finding.certainty is Certainty.POSSIBLE:
            return self._who(case)
        request = case.request_bytes
        asked = f"{format_bytes(request)} of host memory were asked for in one piece. " if request else ""
        title, text, paste = _measure(case)
        return self.make(
            f"{asked}{text}",
            paste,
            title=title,
            outcomes=(
                (
                    "If it dies again at the same place",
                    "watch the memory of all its processes up to there (ps, /proc, the scheduler's record)",
                ),
                (
                    "If it dies later than before",
                    "something grows: results that are kept, caches, worker copies of the data set",
                ),
            ),
        )

    def _who(self, case: Case) -> Step:
        if "no_last_record" in case.failure.detail:
            return self._how_it_ended()
        text = (
            "SIGKILL does not say why it was sent. Ask the node's kernel log and the scheduler before you "
            "change anything: an out-of-memory kill stands there with the process's size."
        )
        return self.make(
            text,
            KERNEL_LOG,
            title="Find out who sent SIGKILL; if it was the kernel, lower host memory use",
            outcomes=(
                (
                    "If the kernel or the scheduler names an OOM kill",
                    "more host memory, fewer workers, no CPU offload, streamed data",
                ),
                ("If neither does", "look for preemption, a time limit, scancel, a watchdog or a person"),
            ),
        )

    def _how_it_ended(self) -> Step:
        text = (
            "A process that is killed leaves no last record, and neither does one that calls os._exit or crashes in C "
            "code. The exit code that its launcher or shell printed tells them apart, the node's kernel log says "
            "whether the kernel killed it."
        )
        return self.make(
            text,
            KERNEL_LOG,
            title="Find out how the process ended; if the kernel killed it, lower host memory use",
            outcomes=(
                (
                    "If the kernel or the scheduler names an OOM kill",
                    "more host memory, fewer workers, no CPU offload, streamed data",
                ),
                (
                    "If it ended by itself",
                    "run it under `oomph record --`, which keeps its output and exit code",
                ),
            ),
        )


def _measure(case: Case) -> tuple[str, str, str]:
    """(title, why, what to paste): what kills, then what uses."""
    sender = case.failure.detail.get("sender", "")
    if "Slurm" in sender:
        return (
            "Ask Slurm for more memory",
            (
                "The job step's cgroup has the size of its memory request, whatever the node has. MaxRSS "
                "of the step says how much it took."
            ),
            (
                "sacct -j <job> --format=JobID,MaxRSS,ReqMem\n#SBATCH --mem=<more than MaxRSS>   # "
                "--mem=0: all of the node"
            ),
        )
    if "Kubernetes" in sender:
        return (
            "Raise the container's memory limit",
            (
                "The kubelet killed the container at its own limit, not at the node's. /dev/shm and tmpfs "
                "volumes count in it."
            ),
            "resources:\n  requests: {memory: <more>}\n  limits: {memory: <more>}",
        )
    if sender == "Ray":
        return (
            "Run fewer Ray tasks or actors per node",
            (
                "Ray's monitor kills a task when the node is nearly full. Reserve memory for each, so that "
                "Ray places fewer on a node."
            ),
            "@ray.remote(memory=8 * 2**30)   # bytes that one actor needs",
        )
    if case.failure.detail.get("who") == "DataLoader worker" or case.frame_matching(_LOADER, innermost=6):
        return (
            "Use fewer data-loader workers",
            (
                "Every worker is a process with its own copy of what the data set object holds and of its "
                "prefetched samples."
            ),
            "DataLoader(..., num_workers=2, prefetch_factor=2)",
        )
    if case.fact("offload") is not None or case.text_before(_OFFLOAD, last=400) is not None:
        return (
            "Turn CPU offload off, or give the host more memory",
            (
                "Offloaded optimizer states take 12 bytes of RAM per parameter (fp32 weights and two "
                "states), offloaded parameters come on top."
            ),
            '"offload_optimizer": {"device": "none"}   # or "nvme"',
        )
    if case.phase is Phase.LOAD or (case.phase is Phase.INIT and (case.number("world_size") or 0) > 1):
        return (
            "Load on one rank only, or memory-mapped",
            (
                "Every rank that builds the whole model in RAM holds a copy of its own: copies x ranks per "
                "node."
            ),
            (
                'torch.load(path, map_location="cpu", mmap=True, weights_only=True)\n'
                '# or build under torch.device("meta") and load on rank 0'
            ),
        )
    if case.phase in (Phase.EVAL, Phase.GENERATE) or case.frame_matching(_TO_HOST, innermost=2) is not None:
        return (
            "Do not collect all results in memory",
            (
                "What is kept grows with the data set. Write each part to disk, or reduce it to the "
                "numbers that are needed."
            ),
            'np.save(f"part_{index}.npy", part)   # instead of results.append(part)',
        )
    return (
        "",
        (
            "Stream or memory-map the data instead of holding all of it, use fewer worker processes, or "
            "take a machine with more RAM."
        ),
        _LOOK_WINDOWS if case.platform == "windows" else "free -h; ps -eo pid,rss,cmd --sort=-rss | head",
    )
