"""The loss: copies of the logits."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, switched


class Loss(Kind):
    """Fused and chunked losses, and what else handles logits."""

    name = "loss"
    order = 33
    keys = (
        argument("use_liger_kernel", "use_liger", "use_liger_loss", "liger_\\w+", "loss_type", "label_smoothing\\w*",
                 "fused_loss", "use_cce", "cut_cross_entropy", "chunked_\\w+", "loss_parallel", "disable_loss_parallel",
                 "completion_only_loss", "assistant_only_loss", "neftune_noise_alpha", "beta",
                 "precompute_ref_log_probs"),
        r"arguments\.(?:.+\.)?liger_kernel_config\..+",
        r"versions\.(?:liger-kernel|cut-cross-entropy)",
        r"environment\.LIGER_.*",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """A fused loss makes no whole logits."""
        del situation
        name = change.key.rpartition(".")[2].lower()
        fused = any(word in name for word in ("liger", "cce", "cut_cross", "chunk", "fused"))
        if name in ("beta", "neftune_noise_alpha", "completion_only_loss", "assistant_only_loss"):
            return Judged("it changes what the loss is, hardly what it keeps", Suspicion.UNLIKELY)
        return Judged(
            "a fused or chunked loss makes no logits of the whole batch (tokens x vocabulary, in fp32 and "
            "several copies)"
            if fused
            else "the loss decides how many copies of the logits are alive at once",
            Suspicion.LIKELY,
            direction=-switched(change) if fused else 0,
            phases=("forward", "backward", "eval"),
            parts=("forward.kept",),
            sources=("docs/frameworks.md (bytes per logit)",),
            weight=7.0,
        )
