"""`accelerate launch`, `deepspeed`, `fabric run`: where their flags end, and how many processes they start."""

from __future__ import annotations

import re
from pathlib import Path

from oomph.errors import UsageError
from oomph.tracing.target.draft import Draft
from oomph.tracing.target.flags import Table, read, whole, words
from oomph.tracing.target.model import Launcher

#: accelerate/commands/launch.py: the flags without a value. A test compares them with accelerate's own parser.
ACCELERATE = Table(
    "accelerate launch",
    switches=words("""quiet cpu multi_gpu tpu enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic
        dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config use_megatron_lm same_network
        module no_python tpu_cluster no_tpu_cluster tpu_use_sudo downcast_bf16 fp8_use_autocast_during_eval debug
        use_xpu use_mps_device ipex help"""),
    short={"q": "quiet", "t": "tee", "m": "module", "h": "help"},
)
#: deepspeed/launcher/runner.py.
DEEPSPEED = Table(
    "deepspeed",
    switches=words("""no_ssh_check no_ssh save_pid module no_python no_local_rank force_multi elastic_training
        bind_cores_to_rank help"""),
    short={"H": "hostfile", "i": "include", "e": "exclude", "h": "help"},
)
#: lightning/fabric/cli.py, `fabric run`.
FABRIC = Table(
    "fabric run",
    switches=frozenset({"help"}),
    values=words("accelerator strategy devices num_nodes node_rank main_address main_port precision"),
)


def accelerate(draft: Draft) -> bool:
    """Takes accelerate's flags; whether the script is a module. Its environment is made in the child, by accelerate."""
    found = read(ACCELERATE, draft.words)
    if "help" in found.given:
        raise UsageError("accelerate launch --help shows help and trains nothing: leave it out.")
    draft.words = found.rest
    config = found.given.get("config_file") or _accelerate_default(draft)
    written = _flat(draft.folder / config) if config else {}
    total = found.given.get("num_processes") or written.get("num_processes")
    machines = found.given.get("num_machines") or written.get("num_machines") or "1"
    if total is not None and total != "-1":
        draft.world_size = whole(ACCELERATE, "--num_processes", total)
        draft.local_world_size = max(1, draft.world_size // whole(ACCELERATE, "--num_machines", machines))
    draft.launcher = Launcher("accelerate", found.arguments)
    return "module" in found.given


def _accelerate_default(draft: Draft) -> str | None:
    """The file that `accelerate config` writes (accelerate/commands/config/config_args.py), if it is there."""
    home = draft.variable("HF_HOME")
    cache = draft.variable("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(home).expanduser() if home else Path(cache).expanduser() / "huggingface"
    for name in ("default_config.yaml", "default_config.json"):
        path = folder / "accelerate" / name
        if path.is_file():
            return str(path)
    return None


_LINE = re.compile(r"^\s{0,4}[\"']?(num_processes|num_machines)[\"']?\s*:\s*[\"']?(-?\d+)", re.MULTILINE)


def _flat(path: Path) -> dict[str, str]:
    """The two numbers that count, from YAML or JSON: both write them on a line of their own."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"accelerate's configuration {path} cannot be read: {error.strerror}.") from None
    return dict(_LINE.findall(text[:1_000_000]))


def deepspeed(draft: Draft) -> bool:
    """Takes the deepspeed launcher's flags; whether the script is a module."""
    found = read(DEEPSPEED, draft.words)
    draft.words = found.rest
    each, nodes = found.given.get("num_gpus"), found.given.get("num_nodes", "1")
    include = found.given.get("include", "")
    if each is None and include and "@" not in include:
        each = str(len([gpu for gpu in include.partition(":")[2].split(",") if gpu]) or 1)
    if each is not None and each != "-1":
        draft.local_world_size = whole(DEEPSPEED, "--num_gpus", each)
        draft.world_size = draft.local_world_size * (
            1 if nodes == "-1" else whole(DEEPSPEED, "--num_nodes", nodes)
        )
    draft.launcher = Launcher("deepspeed", found.arguments)
    return "module" in found.given


def fabric(draft: Draft) -> bool:
    """Takes the flags of `fabric run` (once `lightning run`), and sets what it sets."""
    if draft.words and draft.words[0] == "model":  # `lightning run model`, as it was called before 2.3
        draft.take()
    found = read(FABRIC, draft.words)
    draft.words = found.rest
    devices, nodes = found.given.get("devices", "1"), found.given.get("num_nodes", "1")
    environment = {"LT_CLI_USED": "1", "LT_DEVICES": devices, "LT_NUM_NODES": nodes}
    for name in ("accelerator", "strategy", "precision"):
        if name in found.given:
            environment[f"LT_{name.upper()}"] = found.given[name]
    if devices not in ("auto", "-1"):
        count = len([part for part in devices.split(",") if part]) if "," in devices else devices
        draft.local_world_size = whole(FABRIC, "--devices", str(count))
        draft.world_size = draft.local_world_size * whole(FABRIC, "--num_nodes", nodes)
    draft.launcher = Launcher("fabric", found.arguments, environment)
    return False
