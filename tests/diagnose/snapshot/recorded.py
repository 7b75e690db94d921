"""Recordings written event by event: every block has an address of its own, so that what happens is what is written."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.evidence.snapshot import from_bytes
from oomph.memory.categories import CATEGORIES
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, block, segment, snapshot

TORCH = "/opt/venv/lib/python3.11/site-packages/torch"

#: (function, file, line); C++ has line 0.
FrameText = tuple[str, str, int]
Stack = Sequence[FrameText]


def cpp(function: str) -> FrameText:
    return (function, "??", 0)


def torch(function: str, file: str, line: int = 100) -> FrameText:
    return (function, f"{TORCH}/{file}", line)


def user(function: str, file: str = "train.py", line: int = 10) -> FrameText:
    return (function, f"/home/someone/project/{file}", line)


CALL = (torch("_call_impl", "nn/modules/module.py"), torch("_wrapped_call_impl", "nn/modules/module.py"))
MAIN = (user("main", line=90), user("<module>", line=99))
THREAD = (
    cpp("torch::autograd::Node::operator()(std::vector<at::Tensor>&&)"),
    cpp("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"),
    cpp("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
    cpp(
        "torch::autograd::Engine::thread_init(int, std::shared_ptr<torch::autograd::ReadyQueue> const&, bool)"
    ),
    cpp("execute_native_thread_routine"),
    cpp("__clone"),
)
STEP = (
    torch("step", "optim/adamw.py"),
    torch("_use_grad", "optim/optimizer.py"),
    torch("wrapper", "optim/optimizer.py"),
    *MAIN,
)

LOAD = (
    torch("convert", "nn/modules/module.py"),
    torch("_apply", "nn/modules/module.py"),
    torch("to", "nn/modules/module.py"),
    *MAIN,
)
BATCH = MAIN
FORWARD = (
    cpp("at::_ops::linear::call(at::Tensor const&)"),
    torch("forward", "nn/modules/linear.py"),
    *CALL,
    user("forward", "model.py", 40),
    *CALL,
    *MAIN,
)
BACKWARD = (
    cpp("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"),
    cpp("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)"),
    *THREAD,
)
ACCUMULATE = (
    cpp("torch::autograd::utils::clone_obey_contract(at::Tensor const&, at::Tensor const&)"),
    cpp("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"),
    *THREAD,
)
SEED = (
    torch("_make_grads", "autograd/__init__.py"),
    torch("backward", "autograd/__init__.py"),
    torch("backward", "_tensor.py"),
    *MAIN,
)
STATE = (torch("_init_group", "optim/adamw.py"), *STEP)
SCRATCH = (torch("_multi_tensor_adamw", "optim/adamw.py"), torch("adamw", "optim/adamw.py"), *STEP)
OWN_STEP = (user("step", "optimizer.py", 74), torch("wrapper", "optim/optimizer.py"), *MAIN)
RECOMPUTE = (
    torch("forward", "nn/modules/linear.py"),
    *CALL,
    user("forward", "model.py", 40),
    torch("backward", "utils/checkpoint.py"),
    torch("apply", "autograd/function.py"),
    *THREAD,
)


class Recorder:
    """Writes events; addresses rise and are never used twice. Events are 10 us apart, annotations
    lie between them."""

    def __init__(self, python_only: bool = False, stacks: bool = True) -> None:
        self.events: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self._python_only, self._stacks = python_only, stacks
        self._next = BASE
        self._alive: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self._dicts: dict[FrameText, dict[str, Any]] = {}

    @property
    def position(self) -> int:
        """Of the next event."""
        return len(self.events)

    def before(self, size: int, stack: Stack = ()) -> int:
        """A block that was there before the trace."""
        return self._place(size, stack)

    def alloc(self, size: int, stack: Stack = ()) -> int:
        address = self._place(size, stack)
        self._event("alloc", size, stack, addr=address)
        return address

    def free(self, *addresses: int) -> None:
        for address in addresses:
            size, _ = self._alive.pop(address)
            self._event("free_requested", size, (), addr=address)
            self._event("free_completed", size, (), addr=address)

    def temporary(self, size: int, stack: Stack) -> None:
        self.free(self.alloc(size, stack))

    def oom(self, size: int, stack: Stack) -> None:
        self._event("oom", size, stack, device_free=0)

    def annotate(self, name: str, stage: str) -> None:
        self.annotations.append(
            {"name": name, "stage": stage, "device": 0, "time_us": 995 + 10 * len(self.events)}
        )

    def _place(self, size: int, stack: Stack) -> int:
        address = self._next
        self._next += -(-size // 512) * 512
        self._alive[address] = (size, self._frames(stack))
        return address

    def _frames(self, stack: Stack) -> list[dict[str, Any]]:
        if not self._stacks:
            return []
        kept = [one for one in stack if not (self._python_only and one[2] == 0)]
        return [
            self._dicts.setdefault(one, {"name": one[0], "filename": one[1], "line": one[2]}) for one in kept
        ]

    def _event(self, action: str, size: int, stack: Stack, **where: int) -> None:
        self.events.append(
            {
                "action": action,
                **where,
                "size": size,
                "stream": 0,
                "time_us": 1000 + 10 * len(self.events),
                "frames": self._frames(stack),
            }
        )

    def content(self) -> dict[str, Any]:
        """As PyTorch writes it."""
        blocks, here = [], BASE
        for address, (size, frames) in sorted(self._alive.items()):
            if address > here:
                blocks.append(block(here, address - here, "inactive"))
            rounded = -(-size // 512) * 512
            # A ring that was overwritten has no stack for old blocks; neither has a block without one here.
            blocks.append(block(address, rounded, requested_size=size, frames=frames))
            here = address + rounded
        end = self._next + 2 * MIB
        blocks.append(block(here, end - here, "inactive"))
        whole = segment(blocks=blocks, segment_type="large")
        return snapshot([whole], [self.events], external_annotations=self.annotations)

    def analysis(self) -> Analysis:
        """What oomph makes of it."""
        return Analysis(from_bytes(pickle.dumps(self.content()), "recorded.pickle"), 0)


def told(analysis: Analysis, address: int) -> tuple[str, str, str]:
    """(category, how, certainty) of the block at this address."""
    from oomph.diagnose.model import Certainty
    from oomph.diagnose.snapshot.model import How

    row = int((analysis.lifetimes.address == address).nonzero()[0][0])
    return (
        str(CATEGORIES[analysis.block_category[row]]),
        str(tuple(How)[analysis.block_how[row]]),
        str(tuple(Certainty)[analysis.block_certainty[row]]),
    )
