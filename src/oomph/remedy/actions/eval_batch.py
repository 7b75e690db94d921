"""Fewer samples at a time in evaluation."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free

_SETTINGS = {
    "transformers": "per_device_eval_batch_size={batch},",
    "axolotl": "eval_batch_size: {batch}",
    "ultralytics": "model.val(batch={batch})",
    "mmengine": "val_dataloader = dict(batch_size={batch}, ...)",
}
_PLAIN = "eval_loader = DataLoader(..., batch_size={batch})"


class EvalBatch(Action):
    """A smaller evaluation batch; training stays as it is."""

    code = "eval-batch"
    title = "Evaluate fewer samples at a time"

    def applies(self, case: Case) -> bool:
        """Unless evaluation takes one sample at a time already."""
        return case.phase in (Phase.EVAL, Phase.GENERATE, Phase.UNKNOWN) and setup_of(case).eval_batch != 1

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        now = setup.eval_batch
        new = max(1, now // 2) if now else None
        change = f"Evaluation batch {now} -> {new}" if now else ""
        default = (
            " The Trainer's default is 8 whatever training uses."
            if setup.dialect == "transformers" and not now
            else ""
        )
        text = (
            f"{must_free(case)} Evaluation has no accumulation and no effect on what is learned, so its "
            "batch can be as small as it must; the metrics stay the same. Training is not "
            f"touched.{default}"
        )
        return self.make(
            text,
            _SETTINGS.get(setup.dialect, _PLAIN).format(batch=new if new else 1),
            title=change,
            outcomes=(
                (
                    "If it still fails at 1",
                    "sequences or outputs are too long: cut them, and move outputs to the CPU",
                ),
                ("If it fails later than before", "outputs pile up: move them to the CPU as they come"),
            ),
        )
