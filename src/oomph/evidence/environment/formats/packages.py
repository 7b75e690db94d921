"""Python packages: `pip list`, `pip freeze`, `uv pip list`, `pip show torch`, `conda list`, the "[pip3]" lines of
environment reports, requirements files, and the metadata that says what PyTorch asks for."""

from __future__ import annotations

import re
from dataclasses import replace

from oomph.evidence.environment.formats import torch_builds
from oomph.evidence.environment.formats.variables import OURS
from oomph.evidence.environment.found import Found, normalized
from oomph.evidence.environment.model import Told, TorchBuild
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

_PINNED = re.compile(
    r"(?:\[pip3?\] )?([A-Za-z0-9][\w.-]{0,80}(?:\[[\w,. -]{1,60}\])?)==([\w.+!-]{1,60})"
    r"(?:\s{0,4};[^\n]{0,200}|\s{0,4}#[^\n]*|\s{0,4}\\)?$"
)
_ROW = re.compile(
    r"([A-Za-z0-9_][\w.-]{0,80})\s{1,60}(\d[\w.+!-]{0,60})(?:\s{1,60}(\S{1,300}))?(?:\s{1,60}(\S{1,200}))?\s*$"
)
_CONDA = re.compile(
    r"\[conda\]\s{1,4}([\w.-]{1,80})\s{1,60}(\d[\w.+-]{0,60})(?:\s{1,60}(\S{1,200}))?(?:\s{1,60}(\S{1,200}))?\s*$"
)
_CONDA_PIN = re.compile(r"(?:[\w-]{1,40}::)?([\w.-]{1,80})={1,2}(\d[\d.]{0,20})(?:=(\S{1,80}))?$")
#: PyTorch without one version: "torch", "torch>=2.1,<3".
_LOOSE = re.compile(
    r"torch(?:\[[\w, -]{1,40}\])?\s{0,4}(?:[<>~!]=?[\w.,<>=!~ *]{1,60})?(?:\s{0,4}[;#][^\n]*)?$"
)
_REQUIRES = re.compile(r"Requires-Dist: {0,4}([\w.-]{1,80}) ?\(?==\s?([\w.+-]{1,40})\)?")
_REQUIREMENT = re.compile(r"(?:[\w.\[\],-]{1,80}\s{0,2}(?:[<>=!~]=|[<>@])|-r |--|-e |-f |#)")
_COLUMNS = re.compile(r"(?:Package|# Name|Name)\s{1,80}Version\b")
_LISTS = re.compile(r"\b(pip3?|conda|mamba|micromamba) list\b")
_SHOWN = re.compile(r"(Name|Version): (\S{1,80})\s*$")
_CONDA_TORCH = ("pytorch", "pytorch-gpu", "libtorch")


def parse(part: Part, found: Found) -> None:
    """Packages with their versions; PyTorch's is a build too."""
    wanted = _is_requirements(part)
    listed = any(line.text.rstrip() == "dependencies:" for line in part.lines[:2_000])
    shown = ""
    # "pip list | grep torch" has no line of column names.
    asked = _LISTS.search(part.command.text) if part.command is not None else None
    table = ("pip" if asked[1].startswith("pip") else "conda") if asked is not None else ""
    for line in part.lines:
        text = line.text.strip()
        if not text or len(text) > 500:
            continue
        if listed and text.startswith("- "):
            _dependency(part, found, text[2:].strip().strip("'\""), part.quote(line))
            continue
        if _COLUMNS.match(text) is not None:
            table = "conda" if "Build" in text else "pip"
            continue
        quote = part.quote(line)
        if text.startswith("Requires-Dist:"):
            _pin(part, found, text, quote)
            continue
        field = _SHOWN.match(text) if text[:1] in "NV" else None
        if field is not None:
            if field[1] == "Name":
                shown = field[2]
            elif shown:
                _installed(part, found, shown, field[2], quote)
                shown = ""
            continue
        pinned = _PINNED.match(text) if "==" in text else None
        if pinned is not None and OURS.match(pinned[1]) is None:  # NCCL_IB_HCA==mlx5_0 is a variable
            _installed(part, found, pinned[1].partition("[")[0], pinned[2], quote, wanted=wanted)
            continue
        loose = _LOOSE.match(text) if wanted else None
        if loose is not None:
            found.take(part.source, "requirements")
            found.add_torch(TorchBuild(quote=quote, wanted=True))
            continue
        row = _CONDA.match(text) or (_ROW.match(text) if table else None)
        if row is None:
            table = table if not table or set(text) <= set("- ") or text.startswith("#") else ""
            continue
        conda = table == "conda" or text.startswith("[conda]")
        _row(part, found, row, quote, conda=conda)


def _dependency(part: Part, found: Found, text: str, quote: Quote) -> None:
    """A line of conda's environment.yml: "pytorch=2.1.0=py3.10_cuda12.1_cudnn8.9.2_0", or one of pip's below it."""
    pinned = _PINNED.match(text)
    if pinned is not None:
        _installed(part, found, pinned[1].partition("[")[0], pinned[2], quote, wanted=True)
        return
    match = _CONDA_PIN.match(text)
    if match is not None and match[1] in _CONDA_TORCH:
        found.take(part.source, "conda environment")
        found.add_torch(replace(torch_builds.conda_build(match[2], match[3] or "", quote), wanted=True))


def _is_requirements(part: Part) -> bool:
    """A list of what is to be installed: it asks for more than exact versions, or its name says so."""
    if part.name.startswith(("require", "constraint")) or part.name.endswith(".in"):
        return True
    if part.whole:
        lines = [line.text.strip() for line in part.lines[:2_000] if line.text.strip()]
        asking = [text for text in lines if _REQUIREMENT.match(text) and _PINNED.match(text) is None]
        return bool(asking) and all(_REQUIREMENT.match(text) or _PINNED.match(text) for text in lines)
    return False


def _installed(
    part: Part, found: Found, name: str, version: str, quote: Quote, *, wanted: bool = False
) -> None:
    found.take(part.source, "requirements" if wanted else "a list of packages")
    found.add_package(name, version, quote)
    if normalized(name) == "torch":
        build = torch_builds.build(version, quote, wanted=wanted)
        if build is not None:
            found.add_torch(build)


def _row(part: Part, found: Found, row: re.Match[str], quote: Quote, *, conda: bool) -> None:
    name, version, build, channel = row[1], row[2], row[3] or "", row[4] or ""
    if conda and channel == "pypi":
        _installed(part, found, name, version, quote)
        return
    found.take(part.source, "a list of packages")
    if conda and name in _CONDA_TORCH:
        found.add_package("torch", version, quote)
        found.add_torch(torch_builds.conda_build(version, build, quote))
    elif conda and name in ("nccl", "cudnn", "cuda-toolkit", "cudatoolkit"):
        found.add_package(f"conda-{name}", version, quote)
    else:
        _installed(part, found, name, version, quote)


def _pin(part: Part, found: Found, text: str, quote: Quote) -> None:
    match = _REQUIRES.match(text)
    if match is not None and match[1].lower().startswith(("nvidia", "triton", "pytorch-triton")):
        found.take(part.source, "PyTorch's metadata")
        found.pins.setdefault(normalized(match[1]), Told(match[2], quote))
