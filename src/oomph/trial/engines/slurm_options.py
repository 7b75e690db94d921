"""Options of a Slurm job as the user gives them, and as submitit takes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from oomph.errors import UsageError
from oomph.trial.engine import Task

#: sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, and
#: days-hours:minutes:seconds.
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})")
#: Named otherwise by submitit, which gives them to sbatch under these names.
_WHOLE_NUMBERS = {
    "nodes": "nodes",
    "gpus_per_node": "gpus_per_node",
    "cpus_per_task": "cpus_per_task",
    "tasks_per_node": "tasks_per_node",
    "ntasks_per_node": "tasks_per_node",
}
#: Known to submitit; everything else goes to sbatch as it is, which knows best what it takes.
_TEXTS = frozenset(
    (
        *("partition", "account", "qos", "constraint", "exclude", "nodelist", "gres"),
        *("mem", "mem_per_gpu", "mem_per_cpu", "comment", "wckey"),
    )
)
_DEFAULT_MINUTES = 60
#: How long before the end of a job's time Slurm warns it, so that what runs can be ended in order.
WARNING_SECONDS = 60
#: What a job needs besides its command: to start, and to end in order.
_OVERHEAD_SECONDS = 120


def minutes_of(text: str) -> int:
    """`--time` of sbatch in whole minutes, upwards. Raises UsageError."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--engine-option time={text}: minutes or [days-]hours:minutes:seconds are needed.")
    parts = [int(part) for part in found["rest"].split(":")]
    if found["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        hours += 24 * int(found["days"])
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, parts[0], (*parts, 0)[1]
    return max(1, hours * 60 + minutes + math.ceil(seconds / 60))


def parameters_of(task: Task, options: Mapping[str, str]) -> dict[str, Any]:
    """What submitit's AutoExecutor takes for a task. Raises UsageError for a value that makes no sense.

    Without `time`, the task's own limit and what a job needs besides; an hour where it has none. Without
    `gpus_per_node`, the task's GPUs divided by the nodes. Slurm never starts the job a second time (--no-requeue).
    """
    further: dict[str, Any] = {"no-requeue": True}
    made: dict[str, Any] = {
        "name": task.name,
        "slurm_signal_delay_s": WARNING_SECONDS,
        "slurm_additional_parameters": further,
    }
    for name, value in options.items():
        name = name.replace("-", "_")
        if name == "time":
            made["timeout_min"] = minutes_of(value)
        elif name in _WHOLE_NUMBERS:
            if not value.isdigit() or (value == "0" and name != "gpus_per_node"):
                raise UsageError(f"--engine-option {name}={value}: a whole number is needed.")
            made[_WHOLE_NUMBERS[name]] = int(value)
        elif name == "setup":
            made["slurm_setup"] = [value]
        elif name in _TEXTS:
            made[f"slurm_{name}"] = value
        else:
            further[name.replace("_", "-")] = value
    if "timeout_min" not in made:
        seconds = task.limits.seconds
        needed = None if seconds is None else seconds + _OVERHEAD_SECONDS + WARNING_SECONDS
        made["timeout_min"] = _DEFAULT_MINUTES if needed is None else math.ceil(needed / 60)
    said = {"gpus", "gpus-per-task"} & further.keys() or {"gpus_per_node", "slurm_gres"} & made.keys()
    if task.gpus and not said:
        made["gpus_per_node"] = math.ceil(task.gpus / made.get("nodes", 1))
    return made
