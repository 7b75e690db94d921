"""What NCCL and training scripts print at their start: NCCL's version, and which rank uses which device.

The interface and the RDMA devices that NCCL says it uses are those that NCCL_SOCKET_IFNAME and NCCL_IB_HCA leave: no
list of what the machine has, so they are not read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import RankDevice, TorchBuild
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line

_WRITER = re.compile(r"([\w.-]{1,80}):\d{1,10}:\d{1,10} \[(\d{1,3})\] ")
_VERSION = re.compile(r"NCCL version (\d{1,2}\.\d{1,3}\.\d{1,3})(?:\+cuda(\d{1,2}\.\d{1,2}))?")
_DUPLICATE = re.compile(
    r"Duplicate GPU detected : rank (\d{1,6}) and rank (\d{1,6}) both on CUDA device ([0-9a-f]{1,12})\b"
)
_INIT = re.compile(
    r"rank (\d{1,6}) n[rR]anks (\d{1,6}) cudaDev (\d{1,3})(?: nvmlDev \d{1,3})? busId ([0-9a-f]{1,12})\b"
)
_RANK = re.compile(
    r"\b(?:global[ _])?rank[ :=#]{1,3}(\d{1,5})\b,?"
    r"(?:\s{0,3}[([]?(?:local[ _]rank[ :=]{1,3}(\d{1,3})|using|uses|on|device|current[ _]device|is|->|=>|gpu|"
    r"running|assigned|to|has|:|=|,|\))\s{0,3}){1,6}"
    r"cuda:(\d{1,2})\b",
    re.IGNORECASE,
)
_UUID = re.compile(r"\brank[ :=]{1,3}(\d{1,5})\b[^\n]{0,80}?\b((?:GPU|MIG)-[0-9a-f]{8}[0-9a-f-]{0,60})")
_KIND = "log of a job"


def parse(part: Part, found: Found) -> None:
    """NCCL's version, devices of ranks."""
    ranks: list[tuple[int, RankDevice]] = []
    for line in part.lines:
        text = line.text
        if len(text) > 4_000:
            continue
        if "NCCL" in text or "Duplicate GPU" in text or "nranks" in text or "nRanks" in text:
            _nccl(part, found, ranks, line)
        if "cuda:" in text and "ank" in text and len(text) < 300 and "rror" not in text:
            one = _RANK.search(text)
            if one is not None:
                found.take(part.source, _KIND)
                local = int(one[2]) if one[2] else None
                found.add_rank_device(RankDevice(int(one[1]), part.quote(line), local, int(one[3])))
        elif ("GPU-" in text or "MIG-" in text) and "ank" in text and len(text) < 400:
            told = _UUID.search(text)
            if told is not None:
                found.take(part.source, _KIND)
                found.add_rank_device(RankDevice(int(told[1]), part.quote(line), uuid=told[2]))
    # The widest communicator numbers its ranks as the job does; groups have numbers of their own.
    widest = max((size for size, _ in ranks), default=0)
    for size, device in ranks:
        if size == widest:
            found.take(part.source, _KIND)
            found.add_rank_device(device)


def _nccl(part: Part, found: Found, ranks: list[tuple[int, RankDevice]], line: Line) -> None:
    text, quote = line.text, part.quote(line)
    writer = _WRITER.search(text)
    host = writer[1] if writer is not None else ""
    version = _VERSION.search(text)
    if version is not None:
        found.take(part.source, _KIND)
        same = [one for one in found.torch if one.quote.source == part.source and not one.wanted]
        build = TorchBuild(quote=quote, nccl=version[1])
        if same:
            build = replace(build, version=same[-1].version, local=same[-1].local)
        found.add_torch(build)
    double = _DUPLICATE.search(text)
    if double is not None:
        found.take(part.source, _KIND)
        for rank in (int(double[1]), int(double[2])):
            found.add_rank_device(RankDevice(rank, quote, bus_id=bus_id(double[3]), host=host))
    init = _INIT.search(text)
    if init is not None:
        ranks.append(
            (
                int(init[2]),
                RankDevice(int(init[1]), quote, device=int(init[3]), bus_id=bus_id(init[4]), host=host),
            )
        )


def bus_id(text: str) -> str:
    """NCCL's hexadecimal bus id as nvidia-smi writes it: "f000" is 00000000:0F:00.0 (domain << 20, bus << 12,
    device << 4; `busIdToInt64` in NCCL's utils.cc drops the signs of 0000:0f:00.0)."""
    number = int(text, 16)
    return f"{number >> 20:08X}:{number >> 12 & 0xFF:02X}:{number >> 4 & 0xFF:02X}.{number & 0xF:X}"
