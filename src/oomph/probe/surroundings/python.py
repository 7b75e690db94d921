"""The PyTorch of an interpreter: its build, what it asks for, what is installed beside it. It is not imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomph.probe.surroundings import asked_python
from oomph.probe.surroundings.seen import Untold

_TIMEOUT_S = 30.0
#: importing PyTorch from a cold network file system takes long.
_IMPORT_TIMEOUT_S = 90.0
_PIN = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\(?\s*==\s*([0-9][^\s;,)]*)\s*\)?\s*(?:;(.*))?\Z")
#: `torch.cuda.get_arch_list()` answers [] where no driver is; what it reads the list from does not ask for one.
_ARCHITECTURES = (
    "import sys\n"
    "sys.path[:1] = [] if sys.path[:1] == [''] else sys.path[:1]\n"
    "import torch\n"
    "print('oomph-architectures:', torch._C._cuda_getArchFlags() or '')\n"
)


@dataclass(frozen=True)
class Installed:
    """What an interpreter has. `cuda` and `hip` are of torch/version.py: None where it says None, "" where nothing was
    read. `pins` are the exact versions that PyTorch's metadata asks for on this system."""

    python: str
    packages: dict[str, str] = field(default_factory=dict)
    pins: dict[str, str] = field(default_factory=dict)
    torch: str = ""
    cuda: str | None = ""
    hip: str | None = ""
    torch_file: str = ""


def installed(python: str | None = None) -> Installed | Untold:
    """Of this interpreter, or of another one, which is then run with a program that only looks."""
    if python is None:
        return of(asked_python.look())
    text = Path(asked_python.__file__).read_text(encoding="utf-8")
    found = _run([_program(python), "-c", text], _TIMEOUT_S)
    if isinstance(found, Untold):
        return found
    try:
        answer = json.loads(found)
    except ValueError:
        return Untold(f"{python} did not answer as a Python does")
    return of(answer) if isinstance(answer, dict) else Untold(f"{python} did not answer as a Python does")


def of(answer: dict[str, Any]) -> Installed | Untold:
    """What `asked_python.look` found."""
    python = str(answer.get("python") or "this Python")
    if answer.get("problem"):
        return Untold(f"{python}: {answer['problem']}")
    packages = {str(name): str(version) for name, version in dict(answer.get("packages") or {}).items()}
    said = dict(answer.get("torch") or {})
    version = said.get("__version__") or packages.get("torch") or ""
    return Installed(
        python=python,
        packages=packages,
        pins=pins(answer.get("requires") or ()),
        torch=str(version),
        cuda=_text(said, "cuda"),
        hip=_text(said, "hip"),
        torch_file=str(answer.get("torch_file") or ""),
    )


def pins(requires: Any) -> dict[str, str]:
    """The exact versions among requirements; those for another system or for an extra are left out."""
    found: dict[str, str] = {}
    for text in requires:
        match = _PIN.match(str(text))
        if match and _applies(match[3] or ""):
            found[str(asked_python.normalized(match[1]))] = match[2]
    return found


def _applies(marker: str) -> bool:
    """The markers that PyTorch's wheels have compare the system and the machine; others are taken to hold, and extras
    not."""
    if "extra" in marker:
        return False
    import platform

    values = {
        "platform_system": platform.system(),
        "sys_platform": sys.platform,
        "platform_machine": platform.machine(),
    }
    for name, sign, value in re.findall(r"(\w+)\s*(==|!=)\s*[\"']([^\"']*)[\"']", marker):
        if name in values and (values[name] == value) != (sign == "=="):
            return False
    return True


def architectures(python: str | None = None) -> tuple[str, ...] | Untold:
    """What the PyTorch of an interpreter has code for ("sm_80", "compute_90"). This imports it, in a process of its
    own, which does not touch a GPU and is ended after a minute and a half."""
    found = _run([_program(python) if python else sys.executable, "-c", _ARCHITECTURES], _IMPORT_TIMEOUT_S)
    if isinstance(found, Untold):
        return found
    _, mark, rest = found.rpartition("oomph-architectures:")
    names = tuple(word for word in rest.split() if re.fullmatch(r"(?:sm|compute)_\d{2,3}[a-z]?", word))
    return names if mark and names else Untold("PyTorch does not say for which GPUs it was built")


def _program(python: str) -> str:
    """A name is looked for on the path. Links stay as they are: a virtual environment's Python is one."""
    try:
        return str(Path(python).expanduser().absolute()) if "/" in python or "\\" in python else python
    except RuntimeError:  # a home that nobody has
        return python


def _run(command: list[str], timeout_s: float) -> str | Untold:
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that was asked for
            command, capture_output=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return Untold(f"{command[0]} did not answer within {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return Untold(f"{command[0]} cannot be started: {getattr(error, 'strerror', None) or error}")
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return Untold(f"{command[0]} ended with {done.returncode}{f': {last[-1][:200]}' if last else ''}")
    return done.stdout.decode("utf-8", "replace")


def _text(said: dict[str, Any], name: str) -> str | None:
    if name not in said:
        return ""
    return None if said[name] is None else str(said[name])
