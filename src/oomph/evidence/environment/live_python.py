"""The PyTorch of this machine: of this interpreter, or of the one that is asked."""

from __future__ import annotations

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Told, TorchBuild
from oomph.evidence.model import Quote
from oomph.probe.surroundings import python as interpreters
from oomph.probe.surroundings.seen import Untold


def python_packages(found: Found, missing: dict[str, str], python: str | None, cards: bool) -> None:
    """Adds packages, pins and the build. Where there are cards and a CUDA build, PyTorch is imported by a process of
    its own for the list of GPUs that it has code for."""
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


def _says(told: interpreters.Installed) -> str:
    parts = [f"torch {told.torch}"]
    if told.cuda != "":
        parts.append(f"cuda {told.cuda}")
    if told.hip:
        parts.append(f"hip {told.hip}")
    return ", ".join(parts)
