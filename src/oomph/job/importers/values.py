"""Values as files write them (true, "true", 8, "8", 5e8, bfloat16, torch.bfloat16), and handlers made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from oomph.job.importers.imported import Collector, Handler

_DTYPES = {
    "float32": "fp32", "fp32": "fp32", "float": "fp32", "32": "fp32", "full": "fp32",
    "bfloat16": "bf16", "bf16": "bf16", "bf": "bf16",
    "float16": "fp16", "fp16": "fp16", "half": "fp16", "16": "fp16",
    "tf32": "tf32", "fp8": "fp8", "float8": "fp8", "int8": "int8", "uint8": "int8", "int4": "int4",
}  # fmt: skip
#: No size of a job has more digits: what is larger is a mistake, and Python refuses to print very long numbers.
_LARGEST = 10**18


def flag(value: object) -> bool | None:
    """True or false in any of the usual spellings; None for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {
            "true": True,
            "yes": True,
            "on": True,
            "1": True,
            "false": False,
            "no": False,
            "off": False,
            "0": False,
        }.get(value.strip().lower())
    return bool(value) if value in (0, 1) else None


def whole(value: object) -> int | None:
    """A whole number, also where it is written as text or as 5e8; None for anything else."""
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        if len(text) > 30:
            return None
        try:
            value = float(text) if any(c in text for c in ".eE") else int(text)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
        return None
    return int(value) if abs(value) <= _LARGEST else None


def real(value: object) -> float | None:
    """A finite number, also where it is written as text; None for anything else."""
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None


def dtype(value: object) -> str | None:
    """A dtype by a job's name; None for "auto" and whatever is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if value in (16, 32) else None
    if not isinstance(value, str):
        return None
    return _DTYPES.get(value.strip().lower().removeprefix("torch.").removeprefix("jnp."))


def words(value: object) -> tuple[str, ...] | None:
    """Names in a list, or in one text with commas; None for anything else."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return None


def table(value: object) -> Mapping[str, object]:
    """A table; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def off(value: object) -> bool:
    """Whether a value switches its key off."""
    return (
        value is None
        or value is False
        or value in ("", [], {})
        or (isinstance(value, str) and value in ("none", "None", "null"))
    )


# Handlers: each puts what a key says under a path of the job, and refuses by name what it cannot read.


def to_whole(path: str, least: int = 1) -> Handler:
    """A whole number from `least`; null leaves the field alone."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if value is None or value == "":
            return
        number = whole(value)
        if number is None or number < least:
            collector.refuse(key, value, f"not a whole number from {least}")
        else:
            collector.put(path, number, key, value)

    return handle


def to_share(path: str) -> Handler:
    """A share from 0 to 1."""

    def handle(collector: Collector, key: str, value: object) -> None:
        number = real(value)
        if number is not None and 0 <= number <= 1:
            collector.put(path, number, key, value)
        elif value is not None and value != "":
            collector.refuse(key, value, "not a share from 0 to 1")

    return handle


def to_flag(path: str, *, invert: bool = False) -> Handler:
    """True or false."""

    def handle(collector: Collector, key: str, value: object) -> None:
        answer = flag(value)
        if answer is not None:
            collector.put(path, answer is not invert, key, value)
        elif value is not None and value != "":
            collector.refuse(key, value, "neither true nor false")

    return handle


def to_dtype(path: str) -> Handler:
    """A dtype."""

    def handle(collector: Collector, key: str, value: object) -> None:
        found = dtype(value)
        if found is not None:
            collector.put(path, found, key, value)
        elif not off(value) and value != "auto":
            collector.refuse(key, value, "not a dtype that is known here")

    return handle


def to_choice(path: str, names: Mapping[str, object], *, default: str | None = None) -> Handler:
    """One of some names, without regard to case; what is not among them is refused. `default` is what null means."""

    def handle(collector: Collector, key: str, value: object) -> None:
        text = default if value is None else str(value)[:200].strip().lower()
        if text is None or (text == "" and "" not in names):
            return
        if text in names:
            collector.put(path, names[text], key, value)
        else:
            collector.refuse(key, value)

    return handle


def to_text(path: str) -> Handler:
    """Text as it is."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if isinstance(value, str) and value.strip():
            collector.put(path, value.strip()[:500], key, value)

    return handle


def refused(why: str = "") -> Handler:
    """What a job cannot say, unless it is switched off."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if not off(value) and flag(value) is not False:
            collector.refuse(key, value, why)

    return handle


def noted(text: str) -> Handler:
    """What a reader should know where a key is on."""

    def handle(collector: Collector, key: str, value: object) -> None:
        if not off(value) and flag(value) is not False:
            collector.note(f"{key}: {text}")

    return handle
