"""What call stacks say, on stacks as PyTorch records them."""

from __future__ import annotations

import numpy as np
import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.labels import Label, Labels
from oomph.diagnose.snapshot.places import place_of
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.stacks import Frame, Stacks
from oomph.phases import Phase
from tests.diagnose.snapshot.recorded import (
    ACCUMULATE,
    BACKWARD,
    CALL,
    FORWARD,
    LOAD,
    MAIN,
    OWN_STEP,
    RECOMPUTE,
    SCRATCH,
    SEED,
    STATE,
    STEP,
    THREAD,
    Stack,
    cpp,
    torch,
    user,
)


def label(stack: Stack) -> Label:
    stacks = Stacks()
    number = stacks.number([{"name": name, "filename": file, "line": line} for name, file, line in stack])
    return Labels(stacks).of(number)


WORKSPACE = (
    cpp("at::cuda::getNewWorkspace()"),
    cpp("at::cuda::getCurrentCUDABlasHandle()"),
    cpp("void at::cuda::blas::gemm_internal_cublas<float>(char, char, long)"),
)
REPLICATE = (
    torch("broadcast_coalesced", "nn/parallel/comm.py"),
    torch("_broadcast_coalesced_reshape", "nn/parallel/replicate.py"),
    torch("replicate", "nn/parallel/replicate.py"),
    torch("forward", "nn/parallel/data_parallel.py"),
    *CALL,
    *MAIN,
)
REDUCER = (
    cpp("c10d::Reducer::initialize_buckets(std::vector<std::vector<unsigned long> >)"),
    torch("__init__", "nn/parallel/distributed.py"),
    *MAIN,
)
GATHER = (
    torch("_alloc_storage", "distributed/utils.py"),
    torch("_alloc_padded_unsharded_flat_param", "distributed/fsdp/_flat_param.py"),
    torch("unshard", "distributed/fsdp/_flat_param.py"),
    torch("_pre_forward_unshard", "distributed/fsdp/_runtime_utils.py"),
    *CALL,
    *MAIN,
)


@pytest.mark.parametrize(
    ("stack", "phase", "category"),
    [
        (FORWARD, Phase.FORWARD, Category.UNKNOWN),
        (BACKWARD, Phase.BACKWARD, Category.UNKNOWN),
        (ACCUMULATE, Phase.BACKWARD, Category.GRADIENTS),
        (SEED, Phase.BACKWARD, Category.UNKNOWN),
        (STATE, Phase.OPTIMIZER, Category.OPTIMIZER_STATE),
        (SCRATCH, Phase.OPTIMIZER, Category.UNKNOWN),
        (OWN_STEP, Phase.OPTIMIZER, Category.UNKNOWN),
        (LOAD, Phase.LOAD, Category.PARAMETERS),
        ((*WORKSPACE, *FORWARD), Phase.FORWARD, Category.WORKSPACE),
        ((*WORKSPACE, *BACKWARD), Phase.BACKWARD, Category.WORKSPACE),
        (REPLICATE, Phase.FORWARD, Category.PARAMETERS),
        (REDUCER, Phase.INIT, Category.COMMUNICATION),
        (GATHER, Phase.FORWARD, Category.COMMUNICATION),
        ((torch("__init__", "nn/modules/linear.py"), *MAIN), Phase.LOAD, Category.PARAMETERS),
    ],
)
def test_what_the_frames_of_pytorch_say(stack: Stack, phase: Phase, category: Category):
    told = label(stack)
    assert told.phase is phase
    assert told.category is category
    assert told.certainty in (Certainty.CERTAIN, Certainty.LIKELY)


def test_a_recompute_is_backward():
    told = label(RECOMPUTE)
    assert told.phase is Phase.BACKWARD
    assert told.recompute
    # Not reentrant: the hook that unpacks a saved tensor runs the forward again.
    hook = (*FORWARD[:-2], torch("unpack_hook", "utils/checkpoint.py"), *THREAD)
    assert label(hook).phase is Phase.BACKWARD
    assert label(hook).recompute
    assert not label(BACKWARD).recompute


def test_an_optimizer_in_a_gradients_hook_is_an_optimizer():
    hook = (torch("_init_group", "optim/adamw.py"), *STEP[:-2], user("hook"), ACCUMULATE[1], *THREAD)
    told = label(hook)
    assert told.phase is Phase.OPTIMIZER
    assert told.category is Category.OPTIMIZER_STATE


def test_clipping_belongs_to_the_optimizer_and_keeps_nothing():
    told = label((torch("clip_grad_norm_", "nn/utils/clip_grad.py"), *MAIN))
    assert told.phase is Phase.OPTIMIZER
    assert told.passing


def test_evaluation_and_no_grad():
    assert label((*FORWARD, user("evaluate"), user("main"))).phase is Phase.EVAL
    assert label((*FORWARD, user("evaluate"), user("main"))).no_grad
    without = (*FORWARD[:-2], torch("decorate_context", "utils/_contextlib.py"), *MAIN)
    assert label(without).phase is Phase.FORWARD
    assert label(without).no_grad
    assert not label(FORWARD).no_grad


def test_names_of_the_users_own_make_a_phase_possible():
    told = label((user("setup_model"), *MAIN))
    assert told.phase is Phase.INIT
    assert told.certainty is Certainty.POSSIBLE


def test_operators_outside_modules_are_a_forward_possibly():
    convolution = (cpp("at::_ops::convolution::call(at::Tensor const&)"), user("<module>"))
    assert label(convolution).phase is Phase.FORWARD
    assert label(convolution).certainty is Certainty.POSSIBLE
    addition = (cpp("at::_ops::add_Tensor::call(at::Tensor const&)"), user("<module>"))
    assert label(addition).phase is Phase.UNKNOWN


def test_modules_that_make_modules_make_parameters_possibly():
    nested = (user("__init__", "linear.py"), user("__init__", "block.py"), *MAIN)
    assert label(nested).category is Category.PARAMETERS
    assert label(nested).category_certainty is Certainty.POSSIBLE
    # One constructor alone can make anything.
    assert label((user("__init__", "buffer.py"), *MAIN)).category is Category.UNKNOWN
    own = label((user("__init__", "optimizer.py"), *MAIN))
    assert own.category is Category.OPTIMIZER_STATE
    assert own.category_certainty is Certainty.POSSIBLE


def test_a_thread_without_symbols_is_possibly_autograds():
    told = label((cpp("at::_ops::mm::call(at::Tensor const&)"), cpp("execute_native_thread_routine")))
    assert told.phase is Phase.BACKWARD
    assert told.certainty is Certainty.POSSIBLE


def test_what_says_nothing_is_unknown():
    for stack in (MAIN, (cpp("malloc"),), (user("to", "batch.py"), *MAIN)):
        told = label(stack)
        assert told.phase is Phase.UNKNOWN
        assert told.category is Category.UNKNOWN
    assert Labels(Stacks()).of(-1).phase is Phase.UNKNOWN


def test_training_without_python():
    step = (cpp("at::_ops::zeros_like::call(at::Tensor const&)"), cpp("torch::optim::AdamW::step(Closure)"))
    assert label(step).phase is Phase.OPTIMIZER
    assert label((cpp("torch::nn::LinearImpl::forward(at::Tensor const&)"),)).phase is Phase.FORWARD


def test_columns_are_the_labels():
    stacks = Stacks()
    for stack in (FORWARD, ACCUMULATE, STATE):
        stacks.number([{"name": name, "filename": file, "line": line} for name, file, line in stack])
    labels = Labels(stacks)
    numbers = np.array([2, -1, 0, 1, 1], np.int32)
    columns = labels.columns(numbers)
    phases = tuple(Phase)
    assert [phases[one] for one in columns.phase] == [labels.of(int(one)).phase for one in numbers]
    assert [CATEGORIES[one] for one in columns.category] == [labels.of(int(one)).category for one in numbers]
    assert columns.engine.tolist() == [False, False, False, True, True]
    assert len(labels.columns(np.zeros(0, np.int32)).phase) == 0
    assert labels.columns(np.array([-1], np.int32)).phase.tolist() == [phases.index(Phase.UNKNOWN)]


def test_damaged_frames_are_unknown():
    stacks = Stacks()
    number = stacks.number([{"name": 3}, None, "frame", {"name": "f", "filename": None, "line": "x"}])
    assert Labels(stacks).of(number).phase is Phase.UNKNOWN


@pytest.mark.parametrize("stack", [FORWARD, BACKWARD, STATE, LOAD, OWN_STEP, RECOMPUTE, SEED, (), MAIN[:1]])
def test_the_place_of_a_label_is_the_stacks(stack: Stack):
    frames = tuple(Frame(*one) for one in stack)
    assert label(stack).place == place_of(frames)


def test_endless_names_cost_little():
    long = "stage" * 400_000
    told = label((("_" + long, f"/zero/{long}.py", 3), (f"at::_ops::{long}::call", "??", 0)))
    assert told.phase is Phase.UNKNOWN
