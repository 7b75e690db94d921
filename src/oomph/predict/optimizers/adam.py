"""Adam and AdamW of torch.optim: foreach, capturable, fused, and one parameter after the other.

Source: torch/optim/adam.py (adamw.py before 2.8) of PyTorch 1.13 to 2.13. The allocations are those of
`_init_group`, `_multi_tensor_adam`, `_fused_adam` and `_single_tensor_adam`, in their order. See
docs/terms/optimizer-adam.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.predict.optimizers.script import SCALAR, STATE, TEMPORARY, Frame, Script, ScriptedStepper, by_dtype
from oomph.predict.sharding.base import UnitParameter

FIRST = "first moments (exp_avg)"
SECOND = "second moments (exp_avg_sq)"
LARGEST = "largest second moments (max_exp_avg_sq)"
STEPS = "steps on the device"
ROOTS = "square roots of second moments"
DENOMINATORS = "denominators"
DECAYED = "gradients with weight decay"
CORRECTIONS = "bias corrections"


@dataclass
class Adam(ScriptedStepper):
    """`state_bytes`: bytes per element of the moments (None: as the parameter). `l2`: weight decay is added to the
    gradients (Adam with weight_decay; not AdamW). `torch`: PyTorch's version (None: 2.1 or later)."""

    state_bytes: float | None = None
    amsgrad: bool = False
    l2: bool = False
    torch: tuple[int, ...] | None = None

    #: Whether each parameter's `step` is a tensor on the device.
    device_steps = False

    def state_size(self, parameter: UnitParameter) -> float:
        """Bytes of one moment of a parameter."""
        each = parameter.weight_bytes if self.state_bytes is None else self.state_bytes
        return parameter.numel * each

    def make_states(self, script: Script, parameters: list[UnitParameter]) -> None:
        """`_init_group`: step, exp_avg, exp_avg_sq and with amsgrad max_exp_avg_sq, parameter by parameter."""
        for each in parameters:
            if self.device_steps:
                script.alloc(SCALAR, STATE, STEPS)
            script.alloc(self.state_size(each), STATE, FIRST)
            script.alloc(self.state_size(each), STATE, SECOND)
            if self.amsgrad:
                script.alloc(self.state_size(each), STATE, LARGEST)

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """States at the first step, then the update."""
        if first:
            self.make_states(script, parameters)
        frame = Frame(script)
        self.update(script, frame, parameters)
        frame.close()

    def update(self, script: Script, frame: Frame, parameters: list[UnitParameter]) -> None:
        """What the update allocates for a while."""
        raise NotImplementedError


@dataclass
class ForeachAdam(Adam):
    """`_multi_tensor_adam`: one more set of all second moments of a dtype at once (`torch._foreach_sqrt`), two in
    PyTorch up to 2.0, where the denominator was a set of its own. `capturable`: steps and bias corrections are tensors
    on the device."""

    capturable: bool = False

    @property
    def device_steps(self) -> bool:  # type: ignore[override]
        """As capturable."""
        return self.capturable

    def update(self, script: Script, frame: Frame, parameters: list[UnitParameter]) -> None:
        """Group by group; what a group left in a local variable is alive until the next group's takes its place."""
        old = self.torch is not None and self.torch < (2, 1)
        for group in by_dtype(parameters):
            sizes = [self.state_size(each) for each in group]
            if self.l2 and not (self.torch is not None and self.torch < (2, 0)):
                grads = (each.numel * each.weight_bytes for each in group)
                frame.bind("device_grads", script.each(grads, TEMPORARY, DECAYED))
                if not old:
                    frame.bind("device_grads")
            if self.capturable:
                self._corrections(script, frame, len(group))
            frame.bind("exp_avg_sq_sqrt", script.each(sizes, TEMPORARY, ROOTS))
            if old:
                frame.bind("denom", script.each(sizes, TEMPORARY, DENOMINATORS))

    def _corrections(self, script: Script, frame: Frame, count: int) -> None:
        """Two scalars for each parameter. Those of the group before are alive under a second name until the new ones
        take that name too."""
        frame.bind("bias_correction1", script.each([SCALAR] * count, TEMPORARY, CORRECTIONS))
        frame.bind("bias_correction2", script.each([SCALAR] * count, TEMPORARY, CORRECTIONS))
        frame.also("step_size", "bias_correction1")
        frame.also("bias_correction2_sqrt", "bias_correction2")


@dataclass
class FusedAdam(Adam):
    """`_fused_adam`: one kernel per list of tensors; the update allocates nothing. `step` is on the device."""

    device_steps = True

    def update(self, script: Script, frame: Frame, parameters: list[UnitParameter]) -> None:
        """Nothing."""


@dataclass
class LoopAdam(Adam):
    """`_single_tensor_adam`: of one parameter at a time the square root and its quotient, while the denominator of
    the parameter before is still bound."""

    def update(self, script: Script, frame: Frame, parameters: list[UnitParameter]) -> None:
        """Parameter by parameter."""
        for each in parameters:
            frame.bind("grad")
            if self.l2:
                frame.bind("grad", [script.alloc(each.numel * each.weight_bytes, TEMPORARY, DECAYED)])
            size = self.state_size(each)
            root = script.alloc(size, TEMPORARY, ROOTS)
            quotient = script.alloc(size, TEMPORARY, DENOMINATORS)
            script.free([root])
            frame.bind("denom", [quotient])
