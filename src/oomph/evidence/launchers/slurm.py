"""srun, slurmstepd, sacct and seff: tasks that ended, steps that were cancelled, cgroup kills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.launchers.signals import exit_code, signal_code
from oomph.evidence.lines.clock import parse_clock
from oomph.evidence.model import Document, Position, ProcessExit

_TASK = re.compile(r"srun: error: (?:(\S{1,80}): )?tasks? ([\d,\- ]{1,400}): ([^\n]{1,200})")
_STATUS = re.compile(r"Exited with exit code (-?\d{1,10})")
_CANCELLED = re.compile(
    r"\*\*\* (?:STEP|JOB) [\w.+\[\]]{1,40} (?:ON (\S{1,80}) )?CANCELLED AT (\d{4}-\d\d-\d\dT[\d:]{8})"
)
_OOM = re.compile(r"Detected \d{1,6} oom[-_]kill events?(?:\(s\))?|[Oo]om[-_]kill event\(s\) in step")
_LIMIT = re.compile(
    r"(?:Job|Step|StepId=)\s?\S{0,40} exceeded (?:\S{1,20} )?memory limit[^\n]{0,200}being killed"
)
_STATE = re.compile(r"(?:^|[\s|])OUT_OF_ME(?:MORY|\+)(?:[\s|(]|$)")
#: With these in the text srun's tasks are launchers or nodes, not ranks.
_ELASTIC = (
    "torch.distributed.elastic.multiprocessing.api",
    "torch/distributed/elastic/multiprocessing/api",
    "torch/distributed/elastic/agent",
    "torch/distributed/launcher",
    "torch/distributed/run.py",
    "ChildFailedError",
    "torchrun ",
    "[launch.py:",
)
_MOST_TASKS = 4_096


def parse(document: Document) -> list[ProcessExit]:
    """Exits of srun's tasks. A task is a rank unless the job ran torchrun or DeepSpeed's launcher inside the tasks."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    tasks_are_ranks = True
    if any("srun: error" in document.lines[index].text for index in indices):
        tasks_are_ranks = not any(
            word in document.lines[index].text for index in indices for word in _ELASTIC
        )
    for index in indices:
        text = document.lines[index].text
        match = _TASK.search(text)
        if match:
            yield from _tasks(document, index, match, tasks_are_ranks)
            continue
        found = _step(document, index, text)
        if found:
            yield found


def _tasks(
    document: Document, index: int, match: re.Match[str], tasks_are_ranks: bool
) -> Iterator[ProcessExit]:
    says = match[3].strip()
    killer = ""
    status = _STATUS.match(says)
    code = exit_code(status[1]) if status else signal_code(says.partition("(")[0])
    if says.startswith("Out Of Memory"):
        code, killer = -9, "kernel"
    if status is None and code is None:
        return
    for task in _numbers(match[2]):
        yield ProcessExit(
            code=code,
            position=Position(document.index, index),
            quote=document.quote(index),
            rank=task if tasks_are_ranks else None,
            host=match[1] if match[1] and "[" not in match[1] else None,
            killer=killer,
            launcher="srun",
            time=document.lines[index].time,
        )


def _numbers(text: str) -> Iterator[int]:
    """`0-2,5` -> 0, 1, 2, 5."""
    left = _MOST_TASKS
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if not low.isdigit() or (high and not high.isdigit()) or len(low) > 7 or len(high) > 7:
            continue
        for number in range(int(low), int(high or low) + 1):
            if left == 0:
                return
            left -= 1
            yield number


def _step(document: Document, index: int, text: str) -> ProcessExit | None:
    code, killer, host = -9, "kernel", None
    time = document.lines[index].time
    if "slurmstepd" in text:
        match = _CANCELLED.search(text)
        if match:
            code, killer, host, time = -15, "launcher", match[1], parse_clock(match[2].replace("T", " "))
        elif _LIMIT.search(text):
            killer = "launcher"
        elif not _OOM.search(text):
            return None
    elif not _STATE.search(text) or "::" in text:
        return None
    return ProcessExit(
        code=code,
        position=Position(document.index, index),
        quote=document.quote(index),
        host=host,
        killer=killer,
        launcher="srun",
        time=time,
    )


PRINTER = Printer(("srun: error", "slurmstepd", "out_of_me", *(word.lower() for word in _ELASTIC)), _read)
_SCANNER = Scanner((PRINTER,))
