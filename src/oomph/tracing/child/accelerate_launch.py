"""`accelerate launch`: the ACCELERATE_* variables, made by accelerate's own functions where it is installed."""

from __future__ import annotations

import importlib
import os
from typing import Any

from oomph.errors import UsageError
from oomph.tracing.target.model import Launcher

#: What the launcher sets that says which devices or how many threads; the trace decides on these itself.
_OURS = frozenset({"CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT", "KMP_AFFINITY", "KMP_BLOCKTIME"})


def variables(launcher: Launcher, world: int) -> dict[str, str]:
    """What `accelerate launch` with these arguments would set for one of `world` processes.

    Called inside the session, because accelerate asks torch which devices there are. Raises UsageError where
    accelerate is not installed, or refuses its arguments.
    """
    try:
        launch = importlib.import_module("accelerate.commands.launch")
        environments = importlib.import_module("accelerate.utils.launch")
    except ImportError as error:
        raise UsageError(f"accelerate launch needs accelerate in this Python: {error}") from None
    before = dict(os.environ)
    try:
        arguments = launch.launch_command_parser().parse_args([*launcher.arguments, "script.py"])
        arguments, _, _ = launch._validate_launch_command(arguments)  # noqa: SLF001 - there is no public one
        after = _environment(arguments, environments, world)
    except (ValueError, AssertionError, RuntimeError, FileNotFoundError) as error:
        raise UsageError(f"accelerate launch refuses its arguments: {error}") from None
    except SystemExit:
        raise UsageError("accelerate launch refuses its arguments, for the reason above.") from None
    return {
        name: str(value)
        for name, value in after.items()
        if before.get(name) != value and name not in _OURS and value is not None
    }


def _environment(arguments: Any, environments: Any, world: int) -> dict[str, Any]:
    """The way that accelerate's `launch_command` goes, up to where it would start processes."""
    if arguments.use_deepspeed and not arguments.cpu:
        return dict(environments.prepare_deepspeed_cmd_env(arguments)[1])
    several = arguments.use_fsdp or arguments.use_megatron_lm or arguments.multi_gpu or world > 1
    if several and not arguments.cpu:
        arguments.num_processes = world
        arguments.num_machines = 1
        return dict(environments.prepare_multi_gpu_env(arguments))
    return dict(environments.prepare_simple_launcher_cmd_env(arguments)[1])
