"""tqdm's progress bars: what a bar counts, how far it is, and whether it is the training loop's."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COUNTS = re.compile(r"\|\s?(\d{1,12})/(\d{1,12}) \[")
_TRAINING = re.compile(
    r"\b(?:train\w*|epochs?|ep|steps?|iter\w*|it|fit|optim\w*|finetun\w*)\b|^\s*\d{1,6}/\d{1,6}\s+[\d.]{1,8}G\b",
    re.IGNORECASE,
)
_NOT_TRAINING = re.compile(
    r"shards?|weights|loading|load\b|map\b|map \(|token|eval|valid|\bval\b|test|generat|sampl|predict|infer|download|"
    r"fetch|filter|pack|calib|quant|cach|extract|process|convert|writ|sav|upload|embed|collect|captur|warm|compil|"
    r"prepar|build|mAP50|check|copy|merg|detokeniz|render|decod|encod",
    re.IGNORECASE,
)
_ITEMS = re.compile(r"(?:it|step|batch|iter)s?/s|s/(?:it|step|batch|iter)\b|\?(?:it|step|batch)s?/s")


@dataclass(frozen=True)
class Bar:
    """One print of a bar: its description, the count, the total, and what stands behind the rate."""

    description: str
    done: int
    total: int
    postfix: str

    @property
    def named_training(self) -> bool:
        """True when the description or the figures behind the rate say that this is a training loop."""
        if self.description and _NOT_TRAINING.search(self.description):
            return False
        return bool(_TRAINING.search(self.description)) or "loss" in (self.description + self.postfix).lower()

    @property
    def unnamed(self) -> bool:
        """True for a bar without a description that counts iterations."""
        return not self.description and "loss" not in self.postfix and _ITEMS.search(self.postfix) is not None


def read_bar(text: str) -> Bar | None:
    """The bar that `text` begins with (or carries), or None. Bars that count bytes ("1.2G/4.0G") are none."""
    at = text.find("%|")
    if at < 0:
        return None
    counts = _COUNTS.search(text, at)
    if counts is None or counts.start() - at > 400:
        return None
    description = text[:at].rstrip("0123456789 .").rstrip(" :")
    end = text.find("]", counts.end())
    inside = text[counts.end() : end if end > 0 else counts.end() + 400]
    timing, _, rest = inside.partition("<")
    if not timing or not rest:
        return None
    rate = rest.partition(",")[2]
    return Bar(description.strip(), int(counts[1]), int(counts[2]), rate)
