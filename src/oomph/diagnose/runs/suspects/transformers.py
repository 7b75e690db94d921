"""Versions of transformers. Sources: docs/frameworks.md, which names file and line at each version; its pull "
"requests."""

from __future__ import annotations

from oomph.diagnose.runs.model import Suspicion
from oomph.diagnose.runs.suspects.version_kind import Known, VersionKind

_LOSS = ("forward", "backward")


class Transformers(VersionKind):
    """transformers."""

    name = "transformers version"
    order = 41
    libraries = ("transformers", "tokenizers")
    known = (
        Known(
            "transformers", "4.46",
            "the loss casts to fp32 itself while the caller's logits live on (2 bytes per logit more in bf16), "
            "and evaluation "
            "returns logits in the model's type instead of fp32",
            "docs/frameworks.md (bytes per logit); github.com/huggingface/transformers/pull/33902",
            phases=(*_LOSS, "eval"), parts=("forward.kept",), weight=7.0,
        ),
        Known(
            "transformers", "4.49",
            "labels are padded instead of logits shifted: one fp32 copy of the logits less; models made from a "
            "configuration "
            "have the type that it names instead of fp32",
            "docs/frameworks.md (bytes per logit); github.com/huggingface/transformers/issues/36567",
            direction=-1, phases=(*_LOSS, "load"), parts=("forward.kept", "alive.before"), weight=7.0,
        ),
        Known(
            "transformers", "4.53",
            "GPTBigCode's cache of keys and values is off under checkpoints, as other classes' was before",
            "docs/frameworks.md (around the model)",
            direction=-1, phases=_LOSS, weight=3.0,
        ),
        Known(
            "transformers", "5.0",
            "from_pretrained loads the type that the checkpoint has instead of fp32, and gradient checkpoints are not "
            "reentrant any more by default",
            "transformers/modeling_utils.py (dtype, defaults to auto); docs/frameworks.md (around the model)",
            direction=-1, phases=("load", *_LOSS, "optimizer"), parts=("alive.before", "alive.between"), weight=8.0,
        ),
    )  # fmt: skip
    default = (
        "classes and the Trainer may keep, cast or wrap otherwise; of these versions nothing in particular is "
        "known to differ "
        "in memory"
    )
    default_prior = Suspicion.LIKELY
    default_weight = 4.0
