"""Versions, GPU names and the platform, from banners, environment reports and paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text
from oomph.evidence.model import Document, Fact
from oomph.units import amount

_VERSION = (
    r"v?(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?(?:(?:a|b|rc|\.dev|\.post)\d{1,8})?(?:\+\w{1,20}(?:\.\w{1,20}){0,4})?)"
)
_TORCH = re.compile(
    r"(?<![\w./@-])(?:py)?torch(?:[ _-]version)?(?: \(GPU\?\))?['\"]?\s{0,3}(?:\.{2,60}|={1,2}|:|-|,)?\s{0,40}['\"]?"
    + _VERSION
    + r"(?![\w.]*\d)",
    re.IGNORECASE,
)
_CUDA = re.compile(
    r"(?<![\w./@-])cuda(?:[ _-]version|[ _-]runtime|[ _-]toolkit| used to build pytorch)?"
    r"['\"]?\s{0,3}(?:\.{2,60}|={1,2}|:)?\s{0,20}['\"]?v?(\d{1,2}\.\d{1,2})(?![\w%]| ?[GM]i?B)",
    re.IGNORECASE,
)
#: Compute capabilities, never versions of CUDA.
_CAPABILITIES = frozenset({"5.2", "6.1", "7.2", "8.6", "8.7", "8.9"})
_BUILD = re.compile(r"\+cu(?:da)?(\d{2})\.?(\d)\b")
_DRIVER = re.compile(
    r"\bdriver(?:[ _-]version)?['\"]?\s{0,3}[:=]?\s{0,3}['\"]?(\d{3}(?:\.\d{1,3}){0,2})(?![\w.]*\d)",
    re.IGNORECASE,
)
_PROSE = re.compile(
    r"\b(?:since|requires?|required|needs?|in|from|than|until|before|after|with|for|upgrade|install|of|if|supports?|"
    r"build|deprecated|removed|minimum|least|to|by|and|or|built|compiled|against)\s*$|>=?\s*$|<=?\s*$",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\s*(?:or|and) (?:later|newer|above|higher|up)|\s*\+|\s+(?:will|is required|requires?|has|does)\b"
)
_SUFFIX = r"(?: (?:Ti|SUPER|Super|Ada|Laptop GPU|Mobile|Max-Q|Generation|Blackwell|Workstation|Server|Edition|Xp|V))"
_GPU = re.compile(
    r"\b(?:NVIDIA (?=[A-Z]))?(?:"
    r"(?:GeForce |Quadro |Tesla |TITAN |Titan )(?:RTX |GTX )?[A-Z]{0,2} ?\d{0,4}[A-Z]{0,2}(?:-\w{2,6}){0,3}"
    + _SUFFIX
    + r"{0,2}"
    r"|(?:RTX|GTX) (?:PRO )?A?\d{4}" + _SUFFIX + r"{0,4}"
    r"|(?:A|V|H|B|GH|GB|L|T|P)\d{1,3}[A-Z]?(?:-(?:SXM\d?|PCIE|PCIe|NVL|\d{2,3}GB|HBM3e?))+"
    r"|MX ?\d{3}"
    r")|\bNVIDIA (?:A|V|H|B|GH|GB|L|T|P)\d{1,3}[A-Z]?(?: (?:80GB|40GB|PCIe|HBM3e?|NVL|96GB|480GB|Superchip)){0,2}\b"
    r"|\bTesla [A-Z]\d{1,3}\b|\bAMD Instinct MI\d{2,3}[A-Z]?\b|\bRadeon (?:RX |Pro |VII|AI PRO )\w{0,6}(?: XTX?| GRE)?"
    r"|\bArc (?:Pro )?[AB]\d{2,3}\b|\bIntel\(R\) Data Center GPU Max \d{4}\b"
)
_DEVICE = re.compile(r"\b(?:cuda|device|gpus?|card|xpu|hip|running on)\b|\bname=|Num GPUs", re.IGNORECASE)
_MENTION = re.compile(
    r"\b(?:requires?|recommend\w*|needs?|supports?|such as|e\.g|tested|newer|minimum|like)\b", re.IGNORECASE
)
_TOTAL = re.compile(
    r"(?:Max memory: |total_memory=|detected, \d{1,3} x |total_gpu_memory \(|\bcapacity: [^\n]{3,60} with |"
    r"CUDA:\d{1,3} \([^(),\n]{3,60}, )"
    r"(\d{1,7}(?:\.\d{1,3})?) ?(MB|MiB|GB|GiB)\b"
)
_PLATFORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("wsl2", re.compile(r"microsoft-standard-WSL2|\bwsl2\b", re.IGNORECASE)),
    ("kaggle", re.compile(r"/kaggle/(?:working|input)|KAGGLE_KERNEL")),
    ("colab", re.compile(r"\bgoogle\.colab\b|COLAB_GPU|(?:^|[\s'\"(])/content/(?!\.)")),
    (
        "macos",
        re.compile(
            r"\bmacOS\b|\bdarwin\b|\bdevice(?: ?[:=])? ?['\"]?mps\b|(?:^|[\s'\"(])/Users/\w", re.IGNORECASE
        ),
    ),
    (
        "windows",
        re.compile(
            r"(?:^|[\s'\"(>|])[A-Za-z]:\\{1,2}\w|\bWindows-1[01]\b|\bplatform win32\b|Platform: Windows"
        ),
    ),
    (
        "linux",
        re.compile(
            r"\bPlatform: Linux\b|\bplatform linux\b|\buname: Linux\b(?![^\n]*microsoft)|"
            r"\bLinux-\d\.\d{1,3}\.(?!\S*microsoft)"
        ),
    ),
)


def parse(document: Document) -> list[Fact]:
    """torch_version, cuda_version, driver_version, gpu_name, gpu_total_bytes and platform."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    platforms: set[str] = set()
    torch = ""
    for index in indices:
        text = document.lines[index].text
        low = text.lower()
        if is_failure_text(low):
            continue
        for name, pattern in _PLATFORMS:
            if name not in platforms and pattern.search(text):
                platforms.add(name)
                yield fact(document, index, "platform", name)
        for key, value in _versions(text, low):
            if key == "torch_version":
                if torch.startswith(value):
                    continue  # "2.4.0" after "2.4.0+cu121" says less
                torch = value
            yield fact(document, index, key, value)
        for key, value in _gpu(text, low):
            yield fact(document, index, key, value)


def _versions(text: str, low: str) -> Iterator[tuple[str, str]]:
    if "torch" in low:
        version = _stated(_TORCH, text)
        if version:
            yield "torch_version", version
            build = _BUILD.search(version)
            if build:
                yield "cuda_version", f"{build[1]}.{build[2]}"
    if "cuda" in low and "nccl version" not in low:
        # Unsloth prints the compute capability as "CUDA: 8.9" before the toolkit's version
        at = max(0, low.find("cuda toolkit"))
        version = _stated(_CUDA, text[at:])
        if version and version not in _CAPABILITIES:
            yield "cuda_version", version
    if "driver" in low:
        version = _stated(_DRIVER, text)
        if version:
            yield "driver_version", version


def _stated(pattern: re.Pattern[str], text: str) -> str | None:
    """The version, unless the sentence only talks about versions ("requires PyTorch 2.4 or later")."""
    for match in pattern.finditer(text):
        if not _PROSE.search(text[max(0, match.start() - 30) : match.start()]) and not _LATER.match(
            text, match.end()
        ):
            return match[1]
    return None


def _gpu(text: str, low: str) -> Iterator[tuple[str, str]]:
    if text.lstrip().startswith(("|", "│", "+")) or (text.count(",") > 5 and "mib" in low):
        return  # nvidia-smi's table and CSV have their own parser
    match = _GPU.search(text)
    name = match[0].strip() if match else ""
    alone = len(text) < 80 and text.strip().startswith(name)
    if len(name) > 3 and (alone or (_DEVICE.search(text) and not _MENTION.search(text))):
        yield "gpu_name", name
    total = _TOTAL.search(text)
    if total:
        size = amount(total[1], total[2], decimal_units_are_binary=True)
        if size and size.bytes:
            yield "gpu_total_bytes", str(size.bytes)


PRINTER = Printer(
    (
        "torch 0",
        "torch 1",
        "torch 2",
        "torch==",
        "torch-",
        "torch:",
        "torch=",
        "torch  ",
        "torch v",
        "torch version",
        "torch_version",
        'torch"',
        "torch'",
        "cuda 9",
        "cuda 1",
        "cuda: ",
        "cuda:0",
        "cuda:1",
        "cuda=",
        "cuda version",
        "cuda_version",
        "cuda used to build",
        "cuda runtime",
        "driver version",
        "driver ",
        "driver:",
        "driver_version",
        "+cu1",
        "nvidia",
        "tesla",
        "geforce",
        "quadro",
        "rtx ",
        "gtx ",
        "a100-",
        "h100-",
        "v100-",
        "mx",
        "instinct",
        "radeon",
        "arc a",
        "arc b",
        "arc pro",
        "max memory:",
        "total_memory=",
        "gpus detected",
        "total_gpu_memory",
        "wsl2",
        "/kaggle/",
        "kaggle_kernel",
        "/content/",
        "google.colab",
        "colab_gpu",
        "macos",
        "darwin",
        "device: mps",
        "device mps",
        "device=mps",
        "/users/",
        ":\\",
        "windows-1",
        "platform",
        "uname: linux",
        "linux-",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
