"""Which GPUs of a host a process sees, and how CUDA numbers them for it.

Source: the CUDA programming guide, "CUDA Environment Variables": CUDA_VISIBLE_DEVICES lists indices or (the beginnings
of) UUIDs; the first invalid entry ends the list; CUDA_DEVICE_ORDER is FASTEST_FIRST unless PCI_BUS_ID is asked for.
That a device named twice leaves none, and that an index is read like C's strtol ("2ampere" is 2), is how the driver
behaves and how torch.cuda counts devices (torch/cuda/__init__.py, _parse_visible_devices).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from oomph.probe.model import Gpu

_NUMBER = re.compile(r"\s*([+-]?\d+)")
_ONE_MIG = "CUDA shows a process one MIG device, the first, unless CUDA_VISIBLE_DEVICES names another"


class Visible(msgspec.Struct, frozen=True):
    """`gpus[i]` is the process's device i. `certain` is False where the order, or what is seen, could not be told;
    `why` says so, or what limits the list."""

    gpus: tuple[Gpu, ...] = ()
    certain: bool = True
    why: str = ""


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Visible:
    """What a process with this environment sees of these GPUs (all of the host, in the driver's order)."""
    text = environment.get("CUDA_VISIBLE_DEVICES")
    whole = [one for one in gpus if not one.uuid.startswith("MIG-")]
    cut = [one for one in gpus if one.uuid.startswith("MIG-")]
    if text is None:
        if cut:
            return Visible((cut[0],), not whole, _ONE_MIG)
        return _ordered(whole, whole, environment)
    words = [word.strip() for word in text.split(",")]
    if words[0].startswith(("GPU-", "MIG-")):
        return _by_uuid(gpus, words)
    if cut:
        return Visible((), False, "which MIG device an index of CUDA_VISIBLE_DEVICES means cannot be told")
    chosen: list[Gpu] = []
    for word in words:
        match = _NUMBER.match(word)
        index = int(match[1]) if match else -1
        if not 0 <= index < len(whole):
            return _ordered(
                chosen, whole, environment, "" if word in ("", "-1") else f"{word!r} is no GPU here"
            )
        if whole[index] in chosen:
            return Visible((), True, f"GPU {index} is named twice, which leaves none")
        chosen.append(whole[index])
    return _ordered(chosen, whole, environment)


def _ordered(
    chosen: Sequence[Gpu], whole: Sequence[Gpu], environment: Mapping[str, str], why: str = ""
) -> Visible:
    """Indices count in CUDA's order, which is the driver's where that is asked for, or all cards are alike."""
    alike = len({(one.name, one.capacity_bytes) for one in whole}) < 2
    if alike or environment.get("CUDA_DEVICE_ORDER", "").strip() == "PCI_BUS_ID":
        return Visible(tuple(chosen), True, why)
    return Visible(
        tuple(chosen),
        False,
        "the cards differ, and CUDA numbers the fastest first (CUDA_DEVICE_ORDER=PCI_BUS_ID: in the driver's order)",
    )


def _by_uuid(gpus: Sequence[Gpu], words: Sequence[str]) -> Visible:
    kind = words[0][:4]
    chosen: list[Gpu] = []
    for word in words:
        found = [one for one in gpus if word.startswith(kind) and one.uuid.startswith(word)]
        if len(found) != 1:
            reason = (
                f"{word} is no GPU here" if not found else f"{word} is the beginning of several GPUs' UUIDs"
            )
            return Visible(tuple(chosen), True, reason)
        if found[0] in chosen:
            return Visible((), True, f"{word} is named twice, which leaves none")
        chosen.append(found[0])
    return Visible(tuple(chosen))
