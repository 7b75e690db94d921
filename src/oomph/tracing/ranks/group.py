"""One process of many: `torch.distributed` with a group of which only this rank is there.

torch has a process group that sends nothing (`torch.testing._internal.distributed.fake_pg`, FakeProcessGroup.hpp). It
stands in for NCCL and Gloo: whatever backend the script asks for, the group that it gets has that backend's name and
devices, and the rank and size of the trace's settings.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import os
import sys
from collections.abc import Iterator
from typing import Any

from oomph.errors import UsageError
from oomph.tracing.ranks.everywhere import everywhere
from oomph.tracing.recorder.recorder import Recorder

#: Devices of the backends, as torch registers them (distributed_c10d.py, Backend.backend_capability).
_DEVICES = {"nccl": ("cuda",), "gloo": ("cpu", "cuda"), "mpi": ("cpu", "cuda"), "ucc": ("cpu", "cuda")}


def install(recorder: Recorder) -> None:
    """Lets `init_process_group` and `new_group` make groups that send nothing. torch.distributed is imported."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    import torch.distributed.distributed_c10d as c10d
    from torch.testing._internal.distributed import fake_pg  # noqa: F401 - registers the backend "fake"

    _environment(recorder)
    settings = recorder.settings

    def rendezvous(_original: Any, *_args: Any, **_kwargs: Any) -> Iterator[tuple[Any, int, int]]:
        yield dist.HashStore(), settings.rank, settings.world

    def nothing(_original: Any, *_args: Any, **_kwargs: Any) -> None:
        return None

    def timeout(original: Any, backend: Any) -> Any:
        """NCCL's is ten minutes (torch/distributed/constants.py); a build for the CPU warns that NCCL is not there."""
        return dt.timedelta(minutes=10) if backend == "nccl" else original(backend)

    everywhere(recorder, c10d, "_get_default_timeout", timeout)
    everywhere(recorder, c10d, "_set_pg_timeout", nothing)
    everywhere(recorder, c10d, "rendezvous", rendezvous)
    everywhere(recorder, c10d, "_store_based_barrier", nothing)
    everywhere(recorder, c10d, "init_process_group", _initialized(recorder))
    everywhere(recorder, c10d, "_new_process_group_helper", _helper(c10d))
    recorder.patches.set(dist, "is_nccl_available", lambda: True)
    if not dist.is_initialized():  # a group from before the trace is not the trace's to end
        recorder.patches.when_undone(lambda: _destroy(dist))


def _environment(recorder: Recorder) -> None:
    """What torchrun sets, for a trace inside another program; the child process of `oomph trace` has it already."""
    settings = recorder.settings
    if settings.world < 2:
        return
    local = settings.rank % max(1, settings.device_count)
    wanted = {
        "RANK": settings.rank,
        "WORLD_SIZE": settings.world,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": min(settings.world, max(1, settings.device_count)),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": 29500,
    }
    for name, value in wanted.items():
        if name not in os.environ:
            os.environ[name] = str(value)
            recorder.patches.when_undone(functools.partial(_unset, name))


def _unset(name: str) -> None:
    os.environ.pop(name, None)


def _destroy(dist: Any) -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _initialized(recorder: Recorder) -> Any:
    settings = recorder.settings

    def init_process_group(original: Any, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(original).bind(*args, **kwargs)
        bound.apply_defaults()
        asked = bound.arguments
        for name, own in (("world_size", settings.world), ("rank", settings.rank)):
            if asked.get(name, -1) not in (-1, own, str(own)):
                raise UsageError(
                    f"The script asks for {name}={asked[name]} where the trace has {own}; "
                    f"say --world and --rank as the script has them."
                )
        if asked.get("store") is not None:
            asked.update(store=None, world_size=-1, rank=-1)
        if asked.get("init_method") not in (None, "env://"):
            asked["init_method"] = "env://"
        hook = sys.excepthook
        recorder.patches.when_undone(lambda: setattr(sys, "excepthook", hook))
        bound.arguments["device_id"] = None
        original(*bound.args, **bound.kwargs)
        recorder.assume(
            f"{settings.world} ranks: the other ones hold what this one (rank {settings.rank}) holds, and nothing is "
            "sent. What NCCL allocates by itself is outside PyTorch's allocator and not in these numbers."
        )

    return init_process_group


def _helper(c10d: Any) -> Any:
    def new_process_group(original: Any, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(original).bind(*args, **kwargs)
        asked = str(bound.arguments["backend"])
        devices = _devices(asked)
        bound.arguments["backend"] = c10d.Backend(",".join(f"{device}:fake" for device in devices))
        for name in ("device_id", "backend_options", "pg_options"):
            if name in bound.arguments:
                bound.arguments[name] = None
        group, store = original(*bound.args, **bound.kwargs)
        if store is not None:
            group._set_default_backend(c10d.ProcessGroup.BackendType.CUSTOM)  # noqa: SLF001 - as torch's own helper
            world = c10d._world  # noqa: SLF001 - where torch keeps what it knows of groups
            name = "nccl" if asked == "undefined" else asked
            world.pg_map[group] = (c10d.Backend(name), world.pg_map[group][1])
            world.pg_backend_config[group] = (
                f"{name}" if ":" in name else ",".join(f"{device}:{name}" for device in devices)
            )
        return group, store

    return new_process_group


def _devices(backend: str) -> tuple[str, ...]:
    """The devices that a backend string serves: "nccl", "cpu:gloo,cuda:nccl"."""
    if ":" in backend:
        named = [part.partition(":")[0].strip() for part in backend.split(",")]
        return tuple(dict.fromkeys(name for name in named if name in ("cpu", "cuda"))) or ("cpu", "cuda")
    return _DEVICES.get(backend.lower(), ("cpu", "cuda"))
