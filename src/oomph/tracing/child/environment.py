"""The variables that the script sees: those of its command line, of its launcher, and some that keep it quiet."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.tracing.child.request import Request
from oomph.tracing.target.model import Launcher

#: Set unless the user set them: threads of tokenizers would be forked for nothing, and telemetry is sent by nobody.
_QUIET = {
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
#: Set whatever the user set: nothing is sent. The stand-ins of oomph.tracing.suppress are behind them.
_NOTHING_SENT = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
}
#: A machine with several GPUs has eight of them more often than not. Used where nothing says how many.
USUAL_GPUS = 8


def variables(request: Request, inherited: Mapping[str, str]) -> dict[str, str]:
    """What is to be set in the child's environment before the script runs."""
    target, found = request.target, dict(_NOTHING_SENT)
    found |= {name: value for name, value in _QUIET.items() if name not in inherited}
    launcher = target.launcher
    if launcher is not None:
        found |= {name: value for name, value in launcher.environment.items() if name not in inherited}
    if request.settings.world > 1 or (launcher is not None and launcher.name in ("torchrun", "deepspeed")):
        found |= of_rank(request)
    found |= target.environment
    return found


def of_rank(request: Request) -> dict[str, str]:
    """What torch's agent sets for each worker (torch/distributed/elastic/agent/server/local_elastic_agent.py)."""
    world, rank, local = request.settings.world, request.settings.rank, local_world(request)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % local),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(local),
        "GROUP_RANK": str(rank // local),
        "GROUP_WORLD_SIZE": str(-(-world // local)),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world),
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }


def local_world(request: Request) -> int:
    """How many processes one machine has."""
    world = request.settings.world
    said = request.local_world or request.target.local_world_size
    return max(1, min(world, said or USUAL_GPUS))


def first_arguments(launcher: Launcher | None, rank: int) -> tuple[str, ...]:
    """What a launcher puts before the script's own arguments: deepspeed's launch.py its --local_rank."""
    if launcher is None or launcher.name != "deepspeed" or "--no_local_rank" in launcher.arguments:
        return ()
    return (f"--local_rank={rank}",)
