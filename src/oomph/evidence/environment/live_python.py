"""The PyTorch of this machine: of this interpreter, or of the one that is asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Told, TorchBuild
from oomph.evidence.model import Quote
from oomph.probe.surroundings import python as interpreters
from oomph.probe.surroundings.seen import Untold


def python_packages(
    found: Found,
    missing: dict[str, str],
    python: str | None,
    cards: bool,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Adds packages, pins and the build. Where there are cards and a CUDA build, PyTorch is imported by a process of
    its own for the list of GPUs that it has code for. `variables` are those of the job's surroundings: where they name
    another environment of Python than the one that is looked at by default, a note says so."""
    if python is None:
        other = other_environment(variables or {})
        if other:
            found.note(
                f"PyTorch is looked at as {sys.executable} has it, and the environment that is active is another one: "
                f"--python {other} looks at that."
            )
    told = interpreters.installed(python)
    if isinstance(told, Untold):
        for name in ("torch", "packages", "pins"):
            missing[name] = told.why
        return
    found.take(told.python, "installed packages")
    quote = Quote(told.python, 0, "installed packages")
    found.told.add("packages")
    for name, version in told.packages.items():
        found.add_package(name, version, Quote(told.python, 0, f"{name} {version}"))
    if not told.torch:
        missing["torch"] = (
            f"PyTorch is not installed for {told.python}; --python PATH asks another interpreter"
        )
        return
    for name, version in told.pins.items():
        found.pins[name] = Told(
            version, Quote(told.python, 0, f"torch {told.torch} requires {name}=={version}")
        )
    version, _, local = told.torch.partition("+")
    names: tuple[str, ...] = ()
    if cards and told.cuda:
        asked = interpreters.architectures(python)
        if isinstance(asked, Untold):
            missing["torch.architectures"] = asked.why
        else:
            names = asked
    found.add_torch(
        TorchBuild(
            quote=Quote(told.torch_file or told.python, 0, _says(told)) if told.torch_file else quote,
            version=version,
            local=local,
            cuda=told.cuda,
            hip=told.hip or "",
            architectures=names,
        )
    )


def other_environment(variables: Mapping[str, str]) -> str:
    """The Python of the virtual or conda environment that is active, where it is not the one that runs this."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = variables.get(name, "")
        program = Path(folder, "bin", "python")
        try:
            if folder and program.exists() and Path(folder).resolve() != Path(sys.prefix).resolve():
                return str(program)
        except (OSError, RuntimeError, ValueError):
            continue
        if folder:
            return ""
    return ""


def _says(told: interpreters.Installed) -> str:
    parts = [f"torch {told.torch}"]
    if told.cuda != "":
        parts.append(f"cuda {told.cuda}")
    if told.hip:
        parts.append(f"hip {told.hip}")
    return ", ".join(parts)
