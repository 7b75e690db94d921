"""Reports about an installation: `python -m torch.utils.collect_env`, `transformers env`, `accelerate env` and those
made like them. Their lines are keys with values; GPUs that they list are read by `smi_list`."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats import torch_builds
from oomph.evidence.environment.formats.values import size
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Card, TorchBuild
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

_KEY = re.compile(
    r"\s{0,8}(?:[-*] )?(?:\[\w+\] )?`?([A-Za-z][\w ().?/`+]{1,60}?)`?\s{0,30}[:=]\s{0,30}(\S[^\n]{0,300})$"
)
_VERSION = re.compile(rf"({torch_builds.VERSION})(?:\s|$|\))")
_DRIVER = re.compile(r"\d{2,4}(?:\.\d{1,4}){1,3}")
_CUDA = re.compile(r"\d{1,2}\.\d{1,2}")
_FULL_CUDA = re.compile(r"\d{1,2}\.\d{1,2}(?:\.\d{1,4})?")
_GPU = re.compile(r"(?:GPU \d{1,2}: )?((?:NVIDIA|Tesla|GeForce|Quadro|TITAN) [\w /-]{2,60})")
_RAM = re.compile(r"([\d.]{1,12}) ?GB")
_KIND = "a report of the installation"
_TORCH = ("pytorch version", "torch version", "pytorch", "pytorch version gpu", "pytorch version accelerator")


def parse(part: Part, found: Found) -> None:
    """Torch's build, the driver, the system; what the report could not collect stays untold."""
    for line in part.lines:
        text = line.text
        if (":" not in text and "=" not in text) or len(text) > 600:
            continue
        match = _KEY.match(text)
        if match is None:
            continue
        key = re.sub(r"[()?`]+", "", match[1]).strip().lower()
        if _take(found, key, match[2].strip(), part.quote(line)):
            found.take(part.source, _KIND)


def _take(found: Found, key: str, value: str, quote: Quote) -> bool:
    handler = _KEYS.get(key)
    return handler(found, value, quote) if handler is not None else False


def _torch(found: Found, value: str, quote: Quote) -> bool:
    version = _VERSION.match(value)
    build = torch_builds.build(version[1], quote) if version is not None else None
    if build is None:
        return False
    rest = value[len(version[1]) :] if version is not None else ""
    if "(True)" in rest or "(CUDA)" in rest:
        build = _with(build, available=True)
    elif "(False)" in rest or "(NA)" in rest:
        build = _with(build, available=False)
    found.add_torch(build)
    return True


def _with(build: TorchBuild, available: bool) -> TorchBuild:
    return TorchBuild(
        build.quote,
        build.version,
        build.local,
        build.cuda,
        build.hip,
        available=available,
        wanted=build.wanted,
    )


def _cuda_build(found: Found, value: str, quote: Quote) -> bool:
    match = _CUDA.match(value)
    if match is not None:
        return _more(found, quote, cuda=match[0])
    return _more(found, quote, cuda=None) if value == "None" else False


def _rocm_build(found: Found, value: str, quote: Quote) -> bool:
    match = re.match(r"\d[\d.]{0,20}", value)
    return _more(found, quote, hip=match[0]) if match is not None else False


def _available(found: Found, value: str, quote: Quote) -> bool:
    return _more(found, quote, available=value == "True") if value in ("True", "False") else False


def _more(found: Found, quote: Quote, **values: object) -> bool:
    """More about the build that the report names above; a report whose first line is missing names none."""
    version, local = "", ""
    same = [one for one in found.torch if one.quote.source == quote.source and not one.wanted]
    if same:
        version, local = same[-1].version, same[-1].local
    found.add_torch(TorchBuild(quote=quote, version=version, local=local, **values))  # type: ignore[arg-type]
    return True


def _driver(found: Found, value: str, quote: Quote) -> bool:
    match = _DRIVER.match(value)
    if match is None:
        return False
    found.add("drivers", match[0], quote)
    return True


def _toolkit(found: Found, value: str, quote: Quote) -> bool:
    match = _FULL_CUDA.match(value)
    if match is None:
        return False
    found.add("toolkits", match[0], quote)
    return True


def _system(found: Found, value: str, quote: Quote) -> bool:
    if "microsoft" in value.lower() and "wsl" in value.lower():
        found.tell("wsl", True, quote)
    found.tell("system", value, quote)
    return True


def _gpu(found: Found, value: str, quote: Quote) -> bool:
    match = _GPU.match(value)
    if match is None:
        return False
    if "GPU 0: " not in value and not found.cards:
        found.add_card(Card(quote=quote, name=match[1].strip()))
    return True


def _ram(found: Found, value: str, quote: Quote) -> bool:
    match = _RAM.match(value)
    # Accelerate divides psutil's bytes by 1024**3 and prints GB.
    total = size(f"{match[1]} GiB") if match is not None else None
    if total is None:
        return False
    found.add_host("ram_bytes", total, quote)
    return True


_KEYS = {
    **dict.fromkeys(_TORCH, _torch),
    "cuda used to build pytorch": _cuda_build,
    "rocm used to build pytorch": _rocm_build,
    "is cuda available": _available,
    "nvidia driver version": _driver,
    "nvidia driver": _driver,
    "cuda runtime version": _toolkit,
    "os": _system,
    "platform": _system,
    "python platform": _system,
    "gpu type": _gpu,
    "using gpu type": _gpu,
    "gpu models and configuration": _gpu,
    "system ram": _ram,
}
