"""Host memory could not be pinned, and CUDA calls that "out of memory"."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind, Quote

_NOT_HERE = frozenset({"F0_thc", "none_frame_only", "V2_vllm_cumem"})
_PINS = re.compile(
    r"pin_memory|_activation_offloading\.py \w{0,20}pack|"
    r"pinned_(?:memory|buffer|tensor)|cudaHostAlloc|CachingHostAllocator|cudaHostRegister|HostAlloc\b",
    re.IGNORECASE,
)
_TEXT_PINS = re.compile(r"CachingHostAllocator|cudaHostAlloc|cudaHostRegister|in pin memory thread")
_OFFLOADS = re.compile(r"off_?load|block_?swap|swap_blocks|cpu_adam|swap_tensor", re.IGNORECASE)
_COPIES = re.compile(r"\.to\(|\.cuda\(|\.cpu\(|\.copy_\(|non_blocking|_move|move_")
_WORDS = re.compile(
    r"cpu.?off_?load|off_?load(?:ing)? to (?:cpu|host|ram)|blocks? (?:to )?swap|block.?swap|pin_memory",
    re.IGNORECASE,
)
_PIN_OFF = re.compile(r"pin_memory['\"]?\s*[:=]\s*['\"]?false", re.IGNORECASE)
_NEAR = 12


class PinnedHostMemory(Rule):
    """cudaHostAlloc failed."""

    code = "OOM503"
    cause = "pinned_host_memory"
    name = "host-memory-cannot-be-pinned"
    means = (
        "Pinned (page-locked) host memory is RAM that the GPU may read directly. The driver hands it out, "
        "and when it cannot it reports the same `out of memory` as for the card, without a size. The card "
        "may be almost empty. WSL2 limits pinned memory to a part of what the virtual machine has; "
        "elsewhere a container's memory limit or plain RAM is the bound. ZeRO-Offload and loaders with "
        "pin_memory need the most of it."
    )
    decisive_evidence = (
        "A bare `CUDA error: out of memory` (no `Tried to allocate`) whose innermost frames pin memory: "
        "pin_memory, cudaHostAlloc, CachingHostAllocator, offload buffers. A low figure of GPU memory next "
        "to it makes it stronger. A copy of weights between host and device in an offloading program is "
        "only a hint."
    )
    first_action = (
        "Turn pinning off where the frame says it happens (`pin_memory: false` in the offload section or "
        "the loader), or raise what the machine may lock (WSL2: `memory=` in .wslconfig)."
    )
    verify = "The same step passes with pinning off; watch RAM, not the GPU, while it runs."
    wrong_advice = (
        "A bigger GPU, a smaller batch or allocator settings: the card was not asked for this memory."
    )
    actions = ("unpin", "host-ram", "check-free-memory")

    def check(self, case: Case) -> Match | None:
        """Likely with a frame or text that pins, possible for copies of an offloading program."""
        if case.kind is not Kind.DEVICE_OOM_BARE or case.failure.format in _NOT_HERE:
            return None
        wsl = case.platform == "wsl2"
        where = (
            " The log is from WSL2, which lets a program pin only part of the virtual machine's memory."
            if wsl
            else ""
        )
        frame = case.frame_matching(_PINS, innermost=6)
        if frame is not None:
            says = (
                "The call that failed was pinning host memory "
                f"(`{(frame.span or frame.code or frame.function).strip()[:100]}`): RAM that the GPU may "
                f"read, not memory of the card.{where}"
            )
            direct = frame is case.last_frame
            return Match(Certainty.LIKELY, says, (0.85 if direct else 0.7) + (0.1 if wsl else 0.0))
        named = _named_near(case)
        if named is not None:
            says = f"The text next to the error names an allocation of pinned host memory.{where}"
            return Match(Certainty.LIKELY, says, 0.65, evidence=(case.failure.quote, named))
        return self._offload(case, wsl, where)

    def _offload(self, case: Case, wsl: bool, where: str) -> Match | None:
        frame = case.frame_matching(_OFFLOADS, innermost=4)
        last = case.last_frame
        copies = last is not None and _COPIES.search(f"{last.function} {last.span or last.code}") is not None
        words = case.text_before(_WORDS)
        if words is not None and _PIN_OFF.search(words.text):
            return None
        offload = case.fact("offload")
        if frame is None and not (copies and (words is not None or offload is not None)):
            return None
        quote = words or (offload.quote if offload is not None else None)
        says = (
            "The error comes from a program that moves weights between host and card; such programs pin "
            "host memory for it, and a failure to pin reads the same. The card may also have been "
            f"full.{where}"
        )
        evidence = (case.failure.quote, quote) if quote is not None else (case.failure.quote,)
        return Match(Certainty.POSSIBLE, says, 0.8 if wsl else 0.6, evidence=evidence)


def _named_near(case: Case) -> Quote | None:
    document = case.evidence.documents[case.group.start.document]
    start = case.group.start.line
    for index in range(max(0, start - _NEAR), min(len(document.lines), start + _NEAR + 1)):
        if _TEXT_PINS.search(document.lines[index].text):
            return document.quote(index)
    return None
