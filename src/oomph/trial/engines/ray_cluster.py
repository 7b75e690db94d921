"""A Ray cluster: one that is there, or one of this machine alone for as long as it is needed.

A cluster of our own has no dashboard, sends no usage statistics, speaks over the loopback interface, asks for a token
(Ray's own processes listen on every interface all the same), and takes its folder with it when it ends.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

from oomph.errors import OomphError

#: The least that Ray's object store takes (ray_constants.OBJECT_STORE_MINIMUM_MEMORY_BYTES is 75 MiB). Results are
#: small, and what does not fit goes to the disk.
_OBJECT_STORE_BYTES = 80 << 20
#: Ray refuses "127.0.0.1" and takes the address that others reach instead; the rest of 127/8 is loopback on Linux.
_LOOPBACK = "127.0.0.2"
#: Read by Ray when a cluster or a worker begins. A task without GPUs keeps the CUDA_VISIBLE_DEVICES that it found:
#: "none" may mean that nobody knows how many it needs.
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


#: Sockets are files below it, and their names may have 107 bytes (unix(7)): not where TMPDIR says.
_TEMPORARY, _PREFIX = Path("/tmp"), "oomph-ray-"  # noqa: S108


class RayCluster:
    """Connected from its making to `close`. `address`: of a cluster; None: $RAY_ADDRESS, else one of our own, with
    `cpus` and `gpus` slots (None: what the machine has). Where this process is connected already, that one is used
    and left open. Raises OomphError where there is no cluster at that address, or none can be started."""

    def __init__(
        self, address: str | None = None, *, cpus: int | None = None, gpus: int | None = None
    ) -> None:
        self._folder: str | None = None
        self._connected = False
        address = address or os.environ.get("RAY_ADDRESS") or None
        self.own = address is None and not ray.is_initialized()
        if ray.is_initialized():
            return
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        options: dict[str, object] = {"address": address, "log_to_driver": False}
        if self.own:
            options = self._options_of_our_own(cpus, gpus)
        try:
            with _own_handlers():
                logging.getLogger("ray").setLevel(logging.ERROR)
                ray.init(logging_level=logging.ERROR, configure_logging=False, **options)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            self._remove_folder()
            first = str(error).strip().partition("\n")[0]
            where = (
                f"the Ray cluster at {address} cannot be reached" if address else "Ray cannot be started here"
            )
            what = "Check --engine-option address=." if address else "--engine local needs no Ray."
            raise OomphError(f"{where}: {first}. {what}") from error
        self._connected = True
        _silence()

    def _options_of_our_own(self, cpus: int | None, gpus: int | None) -> dict[str, object]:
        if "RAY_AUTH_MODE" not in os.environ:
            # Ray asks for a token where it finds one; without this it would write one into the user's home.
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        _remove_stale()
        self._folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_TEMPORARY)
        options: dict[str, object] = {
            "address": "local",
            "num_cpus": cpus,
            "num_gpus": gpus,
            "include_dashboard": False,
            "log_to_driver": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_temp_dir": self._folder,
        }
        if sys.platform.startswith("linux"):
            options["_node_ip_address"] = _LOOPBACK
        return options

    def most_gpus(self) -> float:
        """How many GPUs the node that has most has."""
        nodes = [node["Resources"] for node in ray.nodes() if node.get("Alive")]
        return max((float(one.get("GPU", 0)) for one in nodes), default=0.0)

    def close(self) -> None:
        """Disconnects; a cluster of our own ends. May be called twice."""
        if self._connected:
            self._connected = False
            with contextlib.suppress(OSError, RuntimeError):
                ray.shutdown()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _remove_stale() -> None:
    """Folders of processes that were killed, and could not remove them."""
    for folder in _TEMPORARY.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def is_alive(pid: int) -> bool:
    """Whether there is such a process, of whomever."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """Ray takes SIGTERM for itself; whoever uses it may have plans of their own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _silence() -> None:
    """Ray prints what its nodes complain of to this process's standard output, where an answer may be. There is no
    setting for that, only the function that does it; what matters of it comes with each task's end as well."""
    with contextlib.suppress(ImportError):
        module: Any = importlib.import_module("ray._private.worker")
        if hasattr(module, "print_to_stdstream"):
            module.print_to_stdstream = _print_nothing


def _print_nothing(*_: object, **__: object) -> None:
    pass
