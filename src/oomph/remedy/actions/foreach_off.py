"""The optimizer step without temporaries as large as the parameters."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free, params_words

_TEMPORARIES = re.compile(r"_multi_tensor_|_foreach_")
_STATE = re.compile(r"_init_group|zeros_like|\bstate\[")
_CLIP = re.compile(r"clip_grad")
_FUSED = re.compile(r"fused", re.IGNORECASE)


class ForeachOff(Action):
    """foreach=False or fused=True."""

    code = "foreach-off"
    title = "Step parameter by parameter (foreach=False) or fused"

    def applies(self, case: Case) -> bool:
        """Only where a multi-tensor temporary is what failed, and the optimizer is not fused by name."""
        frame = case.frame_matching(_TEMPORARIES, innermost=3)
        last = case.last_frame
        if frame is None or last is None or _FUSED.search(setup_of(case).optimizer):
            return False
        return _STATE.search(f"{last.function} {last.span or last.code}") is None

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        size = f" ({params_words(setup.trainable_params)} of them here)" if setup.trainable_params else ""
        text = (
            f"{must_free(case)} The multi-tensor step works on all parameters at once{size} and makes "
            "temporaries as large as they are. Stepping one parameter at a time needs a temporary of one; "
            "the fused kernel needs none. The result is the same up to rounding."
        )
        if case.frame_matching(_CLIP, innermost=4) is not None:
            paste = "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False)"
        elif setup.dialect in ("transformers", "axolotl"):
            paste = (
                'optim="adamw_torch_fused",'
                if setup.dialect == "transformers"
                else "optimizer: adamw_torch_fused"
            )
        else:
            paste = "torch.optim.AdamW(model.parameters(), lr=lr, fused=True)   # or foreach=False"
        return self.make(
            text,
            paste,
            outcomes=(
                (
                    "If it still fails in the step",
                    "the states themselves are too large: shard them or keep them in 8 bits",
                ),
            ),
        )
