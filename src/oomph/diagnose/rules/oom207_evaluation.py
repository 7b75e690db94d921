"""Only evaluation, generation or a preview does not fit."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.phases import Phase
from oomph.units import format_bytes

_COLLECT = re.compile(
    r"nested_concat|torch_pad_and_concatenate|torch\.cat\(|torch\.stack\(|vstack|gather_for_metrics|all_preds|\.append\(|"
    r"pad_across_processes"
)
_SECOND_MODEL = re.compile(r"pipeline_utils|pipe\w*\.to\(|pipeline\w*\.to\(|from_pretrained")
_NO_GRAD_MISSING = re.compile(r"grad enabled|requires_grad=True", re.IGNORECASE)


class EvalGeneration(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM207"
    cause = "eval_generation"
    name = "evaluation-does-not-fit"
    means = (
        "Training fits and evaluation, validation, sampling or a preview does not: it runs with "
        "gradients, with a larger "
        "batch, keeps its outputs on the GPU, loads a second model, or grows a KV cache."
    )
    decisive_evidence = "The deepest deciding frame, or the job's own line, is evaluation or generation."
    first_action = (
        "torch.no_grad() around it and outputs to the CPU as they come; then a smaller evaluation batch or "
        "shorter samples."
    )
    verify = "Memory during evaluation stays flat from batch to batch, below the training peak."
    wrong_advice = "A smaller training batch: training was not what failed."
    actions = ("no-grad-eval", "eval-batch", "eval-accumulation", "generate-shorter")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind not in (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE) or case.phase not in (
            Phase.EVAL,
            Phase.GENERATE,
        ):
            return None
        if case.kind is Kind.DEVICE_OOM_BARE and case.failure.format not in ("F0_thc", "bare_allocator"):
            return None
        what = "generation" if case.phase is Phase.GENERATE else "evaluation"
        request = case.request_bytes
        asked = f" ({format_bytes(request)})" if request else ""
        numbers = {"request_bytes": request} if request else {}
        actions: tuple[str, ...] = self.actions
        says = f"Memory ran out in {what}{asked}, not in a training step."
        if case.phase is Phase.GENERATE:
            actions = ("eval-batch", "generate-shorter", "no-grad-eval")
        if case.frame_matching(_SECOND_MODEL, innermost=4) is not None:
            says = f"Evaluation loads a second model onto the GPU{asked} beside the one that trains."
            actions = ("no-grad-eval", "eval-batch")
        elif self._collects(case):
            says = f"Evaluation collects its outputs on the GPU{asked} until the end."
            actions = ("eval-accumulation", "no-grad-eval", "eval-batch")
        grew = self._growth(case)
        return Match(Certainty.LIKELY, says + grew, weight=0.75, numbers=numbers, actions=actions)

    def _collects(self, case: Case) -> bool:
        """Whether the request came from keeping outputs. A torch.cat inside a model's forward keeps nothing."""
        if case.phase is not Phase.EVAL or case.frame_matching(_COLLECT, innermost=4) is None:
            return False
        return not any(
            frame.function == "forward" and "torchmetrics" not in frame.file for frame in case.frames
        )

    def _growth(self, case: Case) -> str:
        samples = [one for one in case.samples("allocated", "reserved", "used") if one.context == "eval"]
        if len(samples) >= 3 and samples[-1].value.bytes > 1.2 * samples[0].value.bytes:
            return (
                f" What is allocated grew from {format_bytes(samples[0].value.bytes)} to "
                f"{format_bytes(samples[-1].value.bytes)} over its batches: gradients or outputs are kept."
            )
        return ""
