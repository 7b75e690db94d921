"""`docker run`, `podman run`: GPUs, memory, /dev/shm, limits, variables, the image, the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.evidence.environment.formats import options
from oomph.evidence.environment.formats.shell_words import Word
from oomph.evidence.environment.formats.values import suffixed
from oomph.evidence.environment.model import Launch
from oomph.evidence.model import Quote

_SHORT = {
    "e": "env",
    "m": "memory",
    "v": "volume",
    "w": "workdir",
    "p": "publish",
    "u": "user",
    "h": "hostname",
}
FLAGS = frozenset(
    [
        "rm",
        "detach",
        "interactive",
        "tty",
        "privileged",
        "init",
        "read-only",
        "no-healthcheck",
        "oom-kill-disable",
        "publish-all",
        "quiet",
        "sig-proxy",
        "disable-content-trust",
        "replace",
        "tls-verify",
    ]
)


@dataclass
class Run:
    """One container. `variables` are "NAME=value" or "NAME"; None where they are not known."""

    launch: Launch
    variables: list[str | None]
    image: str | None
    rest: Sequence[Word]


def read(words: Sequence[Word], quote: Quote, program: str) -> Run:
    """`words` behind "docker run"."""
    given = options.read(words, short=_SHORT, flags=FLAGS, flag_letters="itdPq")
    gpus = devices(given.last("gpus", "device-ids"))
    ipc = given.last("ipc")
    pinned: int | None = None
    for value in given.all("ulimit"):
        name, _, limit = (value or "").partition("=")
        if name == "memlock":
            pinned = memlock(limit)
    launch = Launch(
        quote=quote,
        program=program,
        gpus=gpus,
        memory_bytes=suffixed(given.last("memory")) if given.has("memory") else None,
        shm_bytes=suffixed(given.last("shm-size")) if given.has("shm-size") else None,
        host_ipc=ipc == "host" if ipc is not None or not given.has("ipc") else None,
        pinned_limit_bytes=pinned,
    )
    image = given.rest[0].value if given.rest else None
    return Run(launch, given.all("env"), image, given.rest[1:])


def devices(value: str | None) -> int | None:
    """How many GPUs "2", "device=0,1" or '"device=0,1"' are; None for "all" and for what is not known."""
    if value is None:
        return None
    value = value.strip("\"'")
    if value.isdigit():
        return int(value) if len(value) < 6 else None
    if value.startswith("device="):
        return len([one for one in value.removeprefix("device=").split(",") if one and "=" not in one])
    return None


def memlock(limit: str) -> int | None:
    """The soft limit of "-1", "-1:-1", "unlimited" or bytes; -1 for none."""
    soft = limit.strip().partition(":")[0].strip()
    if soft in ("-1", "unlimited", "infinity"):
        return -1
    return suffixed(soft)
