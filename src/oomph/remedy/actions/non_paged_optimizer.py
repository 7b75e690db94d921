"""The same optimizer without managed memory."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of

_NAMES = {
    "paged_adamw": "adamw_torch",
    "paged_adamw_32bit": "adamw_torch",
    "paged_adamw_8bit": "adamw_bnb_8bit",
    "paged_ademamix_32bit": "ademamix",
    "paged_ademamix_8bit": "ademamix_8bit",
    "paged_lion_32bit": "lion_32bit",
    "paged_lion_8bit": "lion_8bit",
}
_CLASSES = {
    "pagedadamw": "torch.optim.AdamW",
    "pagedadamw32bit": "torch.optim.AdamW",
    "pagedadamw8bit": "bitsandbytes.optim.AdamW8bit",
    "pagedadam8bit": "bitsandbytes.optim.Adam8bit",
    "pagedlion8bit": "bitsandbytes.optim.Lion8bit",
}


class NonPagedOptimizer(Action):
    """adamw_bnb_8bit for paged_adamw_8bit, and so on."""

    code = "non-paged-optimizer"
    title = "Use the same optimizer without paging"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        name = setup.optimizer
        key = name.lower()
        text = (
            "Paged optimizers keep their states in CUDA managed memory, which this machine refused. The "
            "unpaged one keeps them on the card, where they take 8 bytes per trained parameter in 32 bits "
            "and about 2 in 8 bits."
        )
        if setup.trainable_params and setup.partly_trained:
            text += " With adapters that is little."
        if key in _NAMES:
            new, paste = (
                _NAMES[key],
                f'optim="{_NAMES[key]}",' if setup.dialect != "axolotl" else f"optimizer: {_NAMES[key]}",
            )
            title = f"Optimizer {name} -> {new}"
        elif key in _CLASSES:
            new = _CLASSES[key]
            paste, title = f"optimizer = {new}(model.parameters(), lr=lr)", f"Optimizer {name} -> {new}"
        else:
            paste, title = 'optim="adamw_bnb_8bit",   # instead of a paged_ one', ""
        return self.make(
            text,
            paste,
            title=title,
            outcomes=(("If the card is then too full", "use the 8-bit states, or train fewer parameters"),),
        )
