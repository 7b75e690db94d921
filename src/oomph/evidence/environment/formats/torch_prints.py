"""What `python -c "import torch; print(torch.__version__, torch.version.cuda, ...)"` and an interactive session print.

A bare "12.1" or "True" says something only behind the expression that it answers.
"""

from __future__ import annotations

import re
from dataclasses import replace

from oomph.evidence.environment.formats import torch_builds
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Told, TorchBuild
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line

_ARCHITECTURES = re.compile(r"\[\s{0,4}(['\"](?:sm|compute)_\d{2,3}[a-z]?['\"][^\]\n]{0,600})\]?")
_ONE = re.compile(r"(?:sm|compute)_\d{2,3}[a-z]?")
_LABELLED = re.compile(
    rf"\btorch(?:\.__version__| version)?['\"]?\s{{0,4}}(?:[:=]|==)\s{{0,4}}['\"]?({torch_builds.VERSION})"
)
_LOCAL = re.compile(r"(?<![\w.=-])(\d\.\d{1,2}\.\d{1,2}\S{0,12}?\+(?:cu\d{2,3}|cpu|rocm[\d.]{1,8}))(?![\w+])")
_CUDA = re.compile(r"torch\.version\.cuda['\"]?\s{0,4}[:=,]?\s{0,4}['\"]?(\d{1,2}\.\d{1,2}|None)\b")
_AVAILABLE = re.compile(r"(?:torch\.)?cuda\.is_available(?:\(\))?['\"]?\s{0,4}[:=,]?\s{1,4}(True|False)\b")
_CUDNN = re.compile(
    r"cudnn\.version\(\)['\"]?\s{0,4}[:=,]?\s{0,4}(\d{4,6})\b|\bcudnn(?: version)?[:=]\s{0,4}(\d{4,6})\b",
    re.I,
)
_NCCL = re.compile(r"nccl\.version\(\)['\"]?\s{0,4}[:=,]?\s{0,4}\((\d{1,2}), (\d{1,3}), (\d{1,3})\)")
_PROPERTIES = re.compile(r"_CudaDeviceProperties\(name='([^']{1,80})', major=(\d{1,2}), minor=(\d)")
_EXPRESSION = re.compile(r"(?:>>>|In \[\d+\]:) ?(.{1,300})$")
_BEGINS = re.compile(
    rf"(?:py)?torch:?\s{{1,4}}({torch_builds.VERSION})(?:,?\s{{1,4}}cuda:?\s{{1,4}}(\d{{1,2}}\.\d{{1,2}}|None))?$",
    re.I,
)
_DEVICE = re.compile(
    r"(?:device(?: name)?|gpu|cuda:\d)?[:= ]{0,3}"
    r"((?:NVIDIA|Tesla|GeForce|Quadro) [\w /-]{2,60}?)[ ,:]{1,3}\((\d{1,2}), (\d)\)",
    re.I,
)
#: Sentences about another build than the one that runs: "xFormers was built for: PyTorch 2.1.0+cu121".
_OTHER = re.compile(
    r"\b(?:built (?:for|with|against)|compiled|requires?|required|expect(?:s|ed)|needs?|install(?:ed)?|support(?:s|ed)|"
    r"compatible|upgrade|downgrade|recommend(?:s|ed)|tested|you have|instead)\b",
    re.IGNORECASE,
)
_KIND = "what PyTorch says of itself"


def parse(part: Part, found: Found) -> None:
    """Torch's version, CUDA, architectures, cuDNN and NCCL."""
    asked = part.command.text if part.command is not None else ""
    asked = asked if "torch" in asked else ""
    for line in part.lines:
        text = line.text.strip()
        if not text or len(text) > 2_000:
            continue
        expression = _EXPRESSION.match(text)
        if expression is not None:
            asked = expression[1]
            continue
        device = _DEVICE.match(text) or _PROPERTIES.search(text)
        if device is not None:
            found.take(part.source, _KIND)
            capability = (int(device[2]), int(device[3]))
            found.capabilities.setdefault(device[1].strip(), Told(capability, part.quote(line)))
        if _OTHER.search(text) is not None:
            continue
        build = _labelled(part, line, text)
        if build is None and asked and ("torch" in asked or "cuda" in asked or "cudnn" in asked):
            build = _answer(part, line, text, asked)
        if build is None and len(text) < 200 and ("torch" in text.lower() or text[:1].isdigit()):
            version = _LOCAL.search(text)
            if (
                version is not None
                and "://" not in text
                and "[" not in text[:1]
                and not _is_requirement(text)
            ):
                build = torch_builds.build(version[1], part.quote(line))
        if build is not None:
            found.take(part.source, _KIND)
            found.add_torch(_named(found, build))


def _is_requirement(text: str) -> bool:
    if re.match(r"[\w.\[\]-]+\s{0,4}(?:==|>=|@|\s\d)", text) is not None or text.startswith(("pip ", "-")):
        return True
    # A row of a list of packages: "torchvision      0.19.0+cu121" is no version of PyTorch.
    row = re.match(r"(?:\[\w{3,5}\]\s{1,4})?([\w.-]{1,80})\s{1,60}\d", text)
    return row is not None and row[1].lower() not in ("torch", "pytorch") and not row[1][:1].isdigit()


def _named(found: Found, build: TorchBuild) -> TorchBuild:
    """A figure without a version belongs to the build that this file named last."""
    if build.version:
        return build
    same = [one for one in found.torch if one.quote.source == build.quote.source and not one.wanted]
    return replace(build, version=same[-1].version, local=same[-1].local) if same else build


def _labelled(part: Part, line: Line, text: str) -> TorchBuild | None:
    build: TorchBuild | None = None
    if "torch" in text:
        match = _LABELLED.search(text)
        if match is not None and text.find("==") < 0 and not _is_requirement(text):
            build = torch_builds.build(match[1], part.quote(line))
    begins = _BEGINS.match(text) if build is None and text[:7].lower().find("torch") >= 0 else None
    if begins is not None and begins[1].count(".") >= 2:
        build = torch_builds.build(begins[1], part.quote(line))
        if build is not None and begins[2]:
            build = replace(build, cuda=None if begins[2] == "None" else begins[2])
    values: dict[str, object] = {}
    cuda = _CUDA.search(text) if "version.cuda" in text else None
    if cuda is not None:
        values["cuda"] = None if cuda[1] == "None" else cuda[1]
    available = _AVAILABLE.search(text) if "is_available" in text else None
    if available is not None:
        values["available"] = available[1] == "True"
    cudnn = _CUDNN.search(text) if "cudnn" in text.lower() else None
    if cudnn is not None:
        values["cudnn"] = torch_builds.cudnn_of(int(cudnn[1] or cudnn[2]))
    nccl = _NCCL.search(text) if "nccl.version" in text else None
    if nccl is not None:
        values["nccl"] = ".".join(nccl.groups())
    listed = _ARCHITECTURES.search(text) if "sm_" in text or "compute_" in text else None
    if listed is not None:
        values["architectures"] = tuple(_ONE.findall(listed[1]))
    if not values:
        return build
    base = build if build is not None else TorchBuild(quote=part.quote(line))
    return replace(base, **values)  # type: ignore[arg-type]


def _answer(part: Part, line: Line, text: str, asked: str) -> TorchBuild | None:
    """The words of an answer by their shapes, as far as the expression asked for such."""
    listed = _ARCHITECTURES.search(text)
    words = _ARCHITECTURES.sub(" ", text).replace(",", " ").split()
    build = TorchBuild(quote=part.quote(line))
    told = listed is not None
    if listed is not None:
        build = replace(build, architectures=tuple(_ONE.findall(listed[1])))
    if len(words) > 12:
        return build if told else None
    for word in (word.strip("'\"()") for word in words):
        full = torch_builds.build(word, build.quote)
        if "__version__" in asked and full is not None and word.count(".") >= 2 and not build.version:
            build = replace(build, version=full.version, local=full.local, cuda=full.cuda, hip=full.hip)
        elif "version.cuda" in asked and re.fullmatch(r"\d{1,2}\.\d{1,2}", word):
            build = replace(build, cuda=word)
        elif "version.cuda" in asked and word == "None":
            build = replace(build, cuda=None)
        elif "is_available" in asked and word in ("True", "False"):
            build = replace(build, available=word == "True")
        elif "cudnn.version" in asked and re.fullmatch(r"\d{4,6}", word):
            build = replace(build, cudnn=torch_builds.cudnn_of(int(word)))
        else:
            continue
        told = True
    nccl = re.match(r"\((\d{1,2}), (\d{1,3}), (\d{1,3})\)\Z", text) if "nccl.version" in asked else None
    if nccl is not None:
        return replace(build, nccl=".".join(nccl.groups()))
    return build if told else None
