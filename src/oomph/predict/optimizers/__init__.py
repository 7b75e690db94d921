"""What an optimizer's step allocates: one file per kind. `stepper_for(job)` chooses."""

from __future__ import annotations

from oomph.predict.optimizers.choose import stepper_for

__all__ = ["stepper_for"]
