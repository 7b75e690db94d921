"""`torchrun`: its flags are those of torch/distributed/run.py, of which a test compares this table with torch's own."""

from __future__ import annotations

from oomph.errors import UsageError
from oomph.tracing.target.draft import Draft
from oomph.tracing.target.flags import Read, Table, read, whole, words
from oomph.tracing.target.model import Launcher

#: torch.distributed.run of 2.4 to 2.14, and `use_env` of the older torch.distributed.launch.
TABLE = Table(
    "torchrun",
    switches=frozenset(
        {"standalone", "module", "no_python", "run_path", "help", "virtual_local_rank", "use_env"}
    ),
    values=words("""nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval
        start_method event_log_handler role log_dir redirects tee local_ranks_filter duplicate_stdout_filters
        duplicate_stderr_filters node_rank master_addr master_port local_addr logs_specs numa_binding
        signals_to_handle shutdown_timeout"""),
    short={"m": "module", "r": "redirects", "t": "tee", "h": "help"},
)
#: What `--nproc-per-node` takes beside a number: as many as there are GPUs (or cores).
_COUNTED = ("gpu", "auto", "cpu", "xpu")
#: torch/distributed/run.py: each flag's default comes from PET_<NAME>.
_VARIABLE = "PET_"


def launch(draft: Draft) -> bool:
    """Takes torchrun's flags from the draft and notes what they say; whether the script is a module (`-m`)."""
    found = read(TABLE, draft.words)
    if "help" in found.given:
        raise UsageError("torchrun --help shows help and trains nothing: leave it out.")
    draft.words = found.rest
    nodes = _nodes(draft, found)
    each = _processes(draft, found)
    if nodes is not None and each is not None:
        draft.world_size, draft.local_world_size = nodes * each, each
    draft.launcher = Launcher("torchrun", found.arguments, {"OMP_NUM_THREADS": "1"})
    if "no_python" in found.given or "run_path" in found.given:
        draft.notes.append("torchrun's --no-python and --run-path are left out: the script is run by Python.")
    return "module" in found.given


def _value(draft: Draft, found: Read, name: str, default: str) -> str:
    return found.given.get(name) or draft.variable(_VARIABLE + name.upper()) or default


def _nodes(draft: Draft, found: Read) -> int | None:
    text = _value(draft, found, "nnodes", "1:1")
    least, _, most = text.partition(":")
    if most and most != least:
        draft.notes.append(f"--nnodes {text}: traced as a run on {most} machines.")
    return whole(TABLE, "--nnodes", most or least)


def _processes(draft: Draft, found: Read) -> int | None:
    text = _value(draft, found, "nproc_per_node", "1")
    if text in _COUNTED:
        draft.notes.append(
            f"--nproc-per-node {text} counts the GPUs of a machine that is not here: give --world to choose."
        )
        return None
    return whole(TABLE, "--nproc-per-node", text)
