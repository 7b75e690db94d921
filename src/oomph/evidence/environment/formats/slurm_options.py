"""The options of sbatch, salloc and srun, as a job's share of one node. They are the same for all three."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oomph.evidence.environment.formats import options
from oomph.evidence.environment.formats.shell_words import Word
from oomph.evidence.environment.formats.values import suffixed
from oomph.evidence.environment.model import Launch
from oomph.evidence.model import Quote

SHORT = {
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "C": "constraint",
    "p": "partition",
    "J": "job-name",
    "o": "output",
    "e": "error",
    "t": "time",
    "A": "account",
    "w": "nodelist",
    "x": "exclude",
    "D": "chdir",
    "q": "qos",
    "m": "distribution",
    "d": "dependency",
    "a": "array",
    "b": "begin",
}
FLAGS = frozenset(
    [
        "exclusive",
        "requeue",
        "no-requeue",
        "overcommit",
        "oversubscribe",
        "label",
        "unbuffered",
        "quiet",
        "verbose",
        "pty",
        "hold",
        "parsable",
        "wait",
        "test-only",
        "overlap",
        "exact",
        "spread-job",
        "use-min-nodes",
        "contiguous",
        "no-container-entrypoint",
        "container-writable",
        "container-mount-home",
        "no-container-mount-home",
        "container-remap-root",
        "no-container-remap-root",
        "whole",
        "external",
        "disable-status",
        "preserve-env",
        "multi-prog",
    ]
)
_COUNT = re.compile(r"(?:gpu:)?(?:([A-Za-z][\w.-]{0,40})[:=])?(\d{1,4})(?:\(S:[\d,-]{1,20}\))?\Z")
_MODEL = re.compile(r"[A-Za-z]{0,10}\d{1,4}\w{0,12}")


@dataclass(frozen=True)
class Share:
    """What a job or a step may use on one node, as far as its options say. `mem_bytes` is 0 for all of it. `tasks`
    is the sum over all nodes; `tasks_told` says that an option set their number."""

    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus: int | None = None
    gpus_total: int | None = None
    gpus_per_task: int | None = None
    mem_bytes: int | None = None
    mem_per_gpu: int | None = None
    mem_per_cpu: int | None = None
    tasks_told: bool = False
    gpu_model: str = ""

    @property
    def processes(self) -> int | None:
        """Tasks that start on a node."""
        if self.tasks_per_node is not None:
            return self.tasks_per_node
        if self.tasks is None:
            return None
        if self.nodes is None:
            return 1 if self.tasks == 1 else None
        return -(-self.tasks // self.nodes) if self.nodes else None

    @property
    def gpus_on_node(self) -> int | None:
        if self.gpus is not None:
            return self.gpus
        if self.gpus_total is not None:
            nodes = 1 if self.nodes is None else self.nodes
            return self.gpus_total // nodes if nodes and self.gpus_total % nodes == 0 else None
        if self.gpus_per_task is not None and self.processes is not None:
            return self.gpus_per_task * self.processes
        return None

    @property
    def memory_bytes(self) -> int | None:
        if self.mem_bytes is not None:
            return self.mem_bytes
        if self.mem_per_gpu is not None and self.gpus_on_node is not None:
            return self.mem_per_gpu * self.gpus_on_node
        if self.mem_per_cpu is not None and self.cpus_per_task is not None and self.processes is not None:
            return self.mem_per_cpu * self.cpus_per_task * self.processes
        return None

    def launch(self, program: str, quote: Quote) -> Launch:
        """This share as what starts processes."""
        return Launch(
            quote=quote,
            program=program,
            nodes=self.nodes,
            processes=self.processes,
            gpus=self.gpus_on_node,
            memory_bytes=self.memory_bytes,
        )


def read(words: Sequence[Word]) -> options.Options:
    """The options that `words` begin with."""
    return options.read(words, short=SHORT, flags=FLAGS, flag_letters="luvQsOKXZiHI")


def memory(text: str | None) -> int | None:
    """--mem's value: MiB without a unit."""
    return suffixed(text, default="m") if text is not None else None


def share(given: options.Options, base: Share | None = None) -> Share:
    """The options on top of a job's own (`base`), which a step inherits."""
    out = base if base is not None else Share()
    nodes = given.last("nodes")
    if nodes is not None:
        first, _, second = nodes.partition("-")
        number = second or first
        out = replace(
            out, nodes=int(number) if number.isdigit() and (not second or first == second) else None
        )
    elif given.has("nodes"):
        out = replace(out, nodes=None)
    if given.has("ntasks-per-node"):
        out = replace(out, tasks_per_node=given.number("ntasks-per-node"), tasks=None, tasks_told=True)
    if given.has("ntasks"):
        per_node = out.tasks_per_node if given.has("ntasks-per-node") or out.nodes is None else None
        out = replace(out, tasks=given.number("ntasks"), tasks_per_node=per_node, tasks_told=True)
    out = replace(out, cpus_per_task=given.number("cpus-per-task") or out.cpus_per_task)
    out = _gpus(given, out)
    if given.has("ntasks-per-gpu"):
        per_gpu = given.number("ntasks-per-gpu")
        both = per_gpu is not None and out.gpus_on_node is not None
        out = replace(out, tasks_told=True)
        if both and per_gpu is not None and out.gpus_on_node is not None:
            out = replace(out, tasks_per_node=per_gpu * out.gpus_on_node)
    if given.has("mem"):
        out = replace(out, mem_bytes=memory(given.last("mem")))
    if given.has("mem-per-gpu"):
        out = replace(out, mem_per_gpu=memory(given.last("mem-per-gpu")))
    if given.has("mem-per-cpu"):
        out = replace(out, mem_per_cpu=memory(given.last("mem-per-cpu")))
    return out


def _gpus(given: options.Options, out: Share) -> Share:
    for name, target in (
        ("gpus-per-node", "gpus"),
        ("gpus", "gpus_total"),
        ("gpus-per-task", "gpus_per_task"),
    ):
        if given.has(name):
            count, model = counted(given.last(name))
            out = replace(out, **{target: count}, gpu_model=model or out.gpu_model)  # type: ignore[arg-type]
            if target == "gpus_per_task" and not out.tasks_told:
                out = replace(out, tasks_told=True)
    for value in given.all("gres"):
        for one in (value or "").split(","):
            if one.startswith("gpu"):
                count, model = counted("1" if one == "gpu" else one)
                out = replace(out, gpus=count, gpu_model=model or out.gpu_model)
    constraint = given.last("constraint")
    if constraint and _MODEL.fullmatch(constraint) and not out.gpu_model:
        out = replace(
            out, gpu_model=constraint if re.match(r"[avhblt]\d|gh\d|rtx|gb\d", constraint.lower()) else ""
        )
    return out


def counted(value: str | None) -> tuple[int | None, str]:
    """(count, model) of "gpu:a100:8", "a100:8", "8"."""
    match = _COUNT.match((value or "").strip())
    if match is None:
        model = re.fullmatch(r"gpu:([A-Za-z]\w{1,40})", (value or "").strip())
        return (1, model[1]) if model is not None else (None, "")
    return int(match[2]), (match[1] or "") if match[1] != "gpu" else ""
