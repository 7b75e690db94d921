"""Padded batches: attention gets a mask where samples of several lengths are filled up, and runs otherwise with it.

Sources (transformers 5.24): masking_utils.py: without zeros in the collator's mask scaled_dot_product_attention gets
none (_ignore_causal_mask_sdpa), with some a mask of batch x 1 x s x s, as packed samples do whose position ids begin
anew (find_packed_sequence_indices, from 4.53 on); integrations/sdpa_attention.py: keys and values are then repeated for
all heads; modeling_flash_attention_utils.py: flash_attn runs without the padded tokens, on copies. The programs were
recorded with one token padded (docs/programs.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from oomph.job.denoising import DENOISERS
from oomph.job.model import ITEM_BYTES, Job
from oomph.predict.programs.load import ProgramFile, Variant, load
from oomph.units import format_bytes

#: Attention that takes a mask. SDPA's flash kernel alone takes none; flex_attention makes none of s x s.
_TAKES_MASK = frozenset(("eager", "sdpa", "sdpa_efficient", "flash_attention_2", "flash_attention_3"))
#: Whose models get no mask of padded tokens: their data is of full length, or padding stays where it is.
_WITHOUT = ("litgpt", "lightning-thunder", "torchtitan", "torchtune", "minimind", "megatron-lm", "nanotron")
#: Since when packed samples are told apart by their position ids.
_FINDS_PACKED = (4, 53)
#: Families without padding, or whose attention has no mask for that of prompts: they read images.
_IMAGES = frozenset(("vit", *DENOISERS))


def has_padding(job: Job) -> bool:
    """Whether samples of a batch are filled up: to the longest of it, which takes two, or to one length."""
    padding = job.batch.padding
    return padding == "max_length" or (padding == "longest" and job.batch.micro > 1)


def recorded(job: Job, file: ProgramFile, stem: str, attention: str, windowed: bool) -> Sequence[Variant]:
    """The variants to choose from: those of padded batches where the job has some and they run otherwise. `stem`: the
    file's name; `attention`: as variants name it; `windowed`: attention has a mask for its window anyway."""
    if not has_padding(job) or not _applies(job):
        return file.variants
    chosen = [
        each
        for each in _padded(file, stem)
        if each.attention == attention and (not windowed or bool(each.more.get("window")))
    ]
    return chosen or file.variants


def _padded(file: ProgramFile, stem: str) -> Sequence[Variant]:
    family = f"-{file.family}"
    found = load(f"{stem.removesuffix(family)}-padded{family}") if stem.endswith(family) else None
    return () if found is None else found.variants


def may_be_padded(job: Job) -> bool:
    """Whether attention has a mask for padding, or may have one as far as the job says."""
    return (has_padding(job) and _applies(job)) or open_job(job) is not None


def lacking(job: Job, file: ProgramFile, stem: str, attention: str) -> str:
    """What is said of batches that are padded, or may be, where attention with a mask has not been recorded; else "".
    A decoder's eager attention has a mask anyway."""
    if attention == "eager" or _padded(file, stem):
        return ""
    rows, least = job.batch.micro, ITEM_BYTES[job.precision.compute]
    size = int(rows * (job.batch.sequence or 0) ** 2 * least)
    scores = f" (at least {format_bytes(size)} while it runs)" if attention == "sdpa" else ""
    return (
        f"Attention with a mask for padding has not been recorded for {job.model.family}: batches are planned without, "
        f"and a mask{scores} comes on top."
    )


def _applies(job: Job) -> bool:
    return (
        job.attention in _TAKES_MASK
        and job.framework.name.lower() not in _WITHOUT
        and job.model.family not in _IMAGES
        and job.batch.sequence is not None
    )


def open_job(job: Job) -> Job | None:
    """The job with a mask for attention, where it does not say whether there is one and there may be; else None."""
    if job.batch.padding is not None or not _applies(job):
        return None
    if job.batch.packed:
        version = job.framework.version("transformers")
        told_apart = version is None or version >= _FINDS_PACKED
        if not told_apart or not job.attention.startswith("sdpa"):
            return None
        return replace(job, batch=replace(job.batch, packed=False, padding="max_length"))
    if max(job.batch.micro, job.evaluation.batch or 0) < 2:
        return None
    return replace(job, batch=replace(job.batch, padding="longest"))


def missing(job: Job) -> Iterator[str]:
    """What cannot be: a mask for a kernel that takes none (sdp_utils_cpp.h, check_for_attn_mask)."""
    if has_padding(job) and job.attention == "sdpa_flash" and job.framework.name.lower() not in _WITHOUT:
        yield "padded batches with SDPA's flash kernel alone, which takes no mask: PyTorch fails (attention sdpa)"


def sentence(job: Job, more: int, peak: int) -> str:
    """What is said where the job leaves open whether attention has a mask. `more`: bytes that a mask adds to the
    highest peak, `peak`: its bytes. "" where that is less than half a hundredth."""
    if more <= 0 or more * 200 < peak:
        return ""
    if job.batch.packed:
        return (
            "Packed samples are planned as one sequence. Where their position ids begin anew, attention gets a mask "
            f"that keeps them apart: up to {format_bytes(more)} more, which the interval covers."
        )
    return (
        "Nothing says whether batches are padded (--set batch.padding=off, longest or max_length): planned is a batch "
        f"of samples of one length. With padding attention gets a mask: up to {format_bytes(more)} more, which the "
        "interval covers."
    )


def assumptions(job: Job) -> tuple[str, ...]:
    """What is taken for granted of batches that are said to be padded."""
    if not has_padding(job) or not _applies(job):
        return ()
    return ("Padded batches are planned at their largest: of full length, one token less.",)
