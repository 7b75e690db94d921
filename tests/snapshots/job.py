"""A small scripted training job: loads, steps, evaluates; every byte of it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.snapshots import sites
from tests.snapshots.device import Device, Tensor
from tests.snapshots.frames import Line, Site
from tests.snapshots.written import annotate

PARAMETERS = "parameters"
GRADIENTS = "gradients"
OPTIMIZER = "optimizer state"
ACTIVATIONS = "activations"
TEMPORARIES = "temporaries"
COMMUNICATION = "communication"
WORKSPACE = "workspace"
#: What a category does not say: the batch, what the user keeps.
OTHER = "unknown"

#: Lines of model.py that keep something for backward, with its size in units of tokens x hidden x 2 bytes.
SAVED = ((40, 1, "layer_norm"), (43, 3, "linear"), (47, 1, "scaled_dot_product_attention"), (52, 4, "linear"))
#: The same for what forward frees at once.
SCRATCH = ((45, 2, "cat"), (53, 4, "gelu"))


@dataclass
class Spec:
    """The job's shape. `tokens` of step i is `tokens_at(i)`; `vocabulary` 0: no head. `keep` is called at the end of
    each step and may allocate what stays; from step `keep_from` on, one tensor of each of `keep_lines` outlives its
    step. `communication_bytes`: DDP's buckets. `eval_every` 0: never.
    `accumulate`: so many batches for one step of the optimizer."""

    layers: int = 4
    hidden: int = 1024
    vocabulary: int = 0
    tokens: int = 4096
    tokens_at: Callable[[int], int] | None = None
    workspace_bytes: int = 8_519_680
    communication_bytes: int = 0
    foreach: bool = True
    eval_every: int = 0
    keep: Callable[[Job, int], None] | None = None
    keep_lines: tuple[Line | None, ...] = ()
    keep_from: int = 0
    evaluates_at: int = 64
    accumulate: int = 1
    annotations: bool = True


@dataclass
class Job:
    """Runs on `device`; `failed` says whether and where it died."""

    device: Device
    spec: Spec
    annotations: list[dict[str, Any]] = field(default_factory=list)
    parameters: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    living: list[Tensor] = field(default_factory=list)
    workspaces: set[bool] = field(default_factory=set)

    def run(self, steps: int) -> Job:
        """Loads and makes so many steps. Raises OutOfMemory, with everything still in use."""
        self.load()
        for step in range(steps):
            self.train(step)
        return self

    def load(self) -> None:
        spec, device = self.spec, self.device
        device.phase = "load"
        for _ in range(spec.layers):
            for factor in (4, 4, 4):
                size = factor * spec.hidden * spec.hidden * 2
                self.parameters.append(device.alloc(size, sites.load(), PARAMETERS))
            self.parameters.append(device.alloc(spec.hidden * 2, sites.load(), PARAMETERS))
        if spec.vocabulary:
            size = spec.vocabulary * spec.hidden * 2
            self.parameters.append(device.alloc(size, sites.load(), PARAMETERS))
        if spec.communication_bytes:
            device.phase = "init"
            device.alloc(spec.communication_bytes, sites.bucket(), COMMUNICATION)

    def train(self, step: int) -> None:
        """One step: batch, forward, loss, backward, optimizer, zero_grad, what is kept, evaluation."""
        spec, device = self.spec, self.device
        device.begin_step(step)
        tokens = spec.tokens_at(step) if spec.tokens_at else spec.tokens
        for _ in range(spec.accumulate):
            device.phase = "forward"
            inputs = [self._live(tokens * 8, sites.batch(), OTHER) for _ in range(2)]
            self.forward(tokens, 54)
            self.backward(tokens)
            self._free(inputs)
        self.optimize()
        if spec.keep:
            spec.keep(self, step)
        if spec.eval_every and step % spec.eval_every == spec.eval_every - 1:
            self.evaluate(tokens)

    def _live(self, size: int, site: Site, category: str) -> Tensor:
        tensor = self.device.alloc(size, site, category)
        self.living.append(tensor)
        return tensor

    def _free(self, tensors: list[Tensor], site: Site | None = None) -> None:
        for tensor in list(tensors):
            self.device.free(tensor, site)
            self.living.remove(tensor)

    def _workspace(self, autograd: bool) -> None:
        if self.spec.workspace_bytes and autograd not in self.workspaces:
            self.workspaces.add(autograd)
            self.device.alloc(self.spec.workspace_bytes, sites.workspace(autograd), WORKSPACE)

    def forward(self, tokens: int, called_at: int, saves: bool = True) -> None:
        """Activations of all layers, then logits and loss. Without `saves` (no_grad) little stays."""
        spec = self.spec
        unit = tokens * spec.hidden * 2
        before: Tensor | None = None
        for _ in range(spec.layers):
            self._workspace(False)
            for number, factor, op in SAVED:
                saved = self._live(factor * unit, sites.block(number, op, called_at=called_at), ACTIVATIONS)
                if not saves:
                    self._free([before] if before else [])
                    before = saved
            for number, factor, op in SCRATCH:
                scratch = self._live(factor * unit, sites.block(number, op, called_at=called_at), TEMPORARIES)
                self._free([scratch], sites.block(number + 1, op, called_at=called_at))
        if spec.vocabulary:
            self._live(tokens * spec.vocabulary * 2, sites.head(called_at), ACTIVATIONS)
            self._live(tokens * spec.vocabulary * 4, sites.loss(called_at + 1), ACTIVATIONS)
        self._live(4, sites.loss(called_at + 1, "nll_loss"), ACTIVATIONS)

    def backward(self, tokens: int) -> None:
        """From the last layer to the first; activations go, gradients of parameters come."""
        spec, device = self.spec, self.device
        device.phase = "backward"
        unit = tokens * spec.hidden * 2
        self._live(4, sites.seed_gradient(), TEMPORARIES)
        saved = [tensor for tensor in self.living if tensor.category == ACTIVATIONS]
        keeps = list(spec.keep_lines) if (device.step or 0) >= spec.keep_from else []
        flow = self._live(unit, sites.backward("NllLossBackward0"), TEMPORARIES)
        weights = list(reversed(self.parameters))
        if spec.vocabulary:
            wide = self._live(
                tokens * spec.vocabulary * 4, sites.backward("LogSoftmaxBackward0"), TEMPORARIES
            )
            self._gradient(weights.pop(0))
            self._free([wide], sites.backward("LogSoftmaxBackward0"))
        while saved:
            tensor = saved.pop()
            if tensor.line in keeps:
                keeps.remove(tensor.line)
                self.living.remove(tensor)
                self.kept.append(tensor)
                continue
            if tensor.requested_bytes > 4 and tensor.line != sites.head().line and weights:
                self._workspace(True)
                self.gradients.append(
                    device.alloc(weights.pop(0).requested_bytes, sites.backward(), GRADIENTS)
                )
            following = self._live(unit, sites.backward("MulBackward0"), TEMPORARIES)
            self._free([flow, tensor], sites.backward("MulBackward0"))
            flow = following
        for weight in weights:
            self._gradient(weight)
        self._free([one for one in self.living if one.category == TEMPORARIES], sites.seed_gradient())

    def _gradient(self, parameter: Tensor) -> None:
        """The gradient of a parameter; a later one of the same step is added to the first and goes."""
        if len(self.gradients) == len(self.parameters):
            self._free(
                [self._live(parameter.requested_bytes, sites.backward(), TEMPORARIES)], sites.backward()
            )
        else:
            self.gradients.append(self.device.alloc(parameter.requested_bytes, sites.backward(), GRADIENTS))

    def optimize(self) -> None:
        """AdamW: two states for each parameter, made in the first step; scratch for all of them at once."""
        device, spec = self.device, self.spec
        device.phase = "optimizer"
        if spec.annotations:
            annotate(self.annotations, device, "Optimizer.step#AdamW.step", "START")
        if not self.states:
            for parameter in self.parameters:
                for number in (146, 150):
                    self.states.append(
                        device.alloc(parameter.requested_bytes * 2, sites.optimizer_state(number), OPTIMIZER)
                    )
        if spec.foreach:
            scratch = [
                self._live(parameter.requested_bytes * 2, sites.optimizer_scratch(), TEMPORARIES)
                for parameter in self.parameters
            ]
            self._free(scratch, sites.optimizer_scratch())
        if spec.annotations:
            annotate(self.annotations, device, "Optimizer.step#AdamW.step", "END")
            annotate(self.annotations, device, "Optimizer.zero_grad#AdamW.zero_grad", "START")
        for gradient in self.gradients:
            device.free(gradient, sites.step_end())
        self.gradients.clear()
        if spec.annotations:
            annotate(self.annotations, device, "Optimizer.zero_grad#AdamW.zero_grad", "END")

    def evaluate(self, tokens: int) -> None:
        """A few forwards without gradients; everything is freed."""
        self.device.phase = "eval"
        for _ in range(2):
            at = self.spec.evaluates_at
            self._live(tokens * 8, sites.script(at), OTHER)
            self.forward(tokens, at, saves=False)
            self._free(list(self.living), sites.script(at + 2))

    def unwind(self) -> None:
        """What an exception leaves behind goes: all that one step had made, gradients included."""
        for tensor in list(reversed(self.living)):
            self._free([tensor], sites.script(70))
        for gradient in self.gradients:
            self.device.free(gradient, sites.script(70))
        self.gradients.clear()
