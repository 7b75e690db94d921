"""OOM206: a checkpoint that is gathered or copied on the GPU."""

from __future__ import annotations

from oomph.diagnose.model import Certainty, Outcome
from tests.diagnose.logs import FORWARD, causes, diagnosed, failed, finding, gib, oom, steps, top

GATHER = (
    "train.py:120 in train: sd = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))",
    (
        "torch/distributed/checkpoint/state_dict.py:1221 in get_model_state_dict: model_state_dict = "
        "_get_model_state_dict("
    ),
    (
        "torch/distributed/_state_dict_utils.py:148 in _iterate_state_dict: ret = "
        "tensor_func(iter_object, pg, device, obj)"
    ),
    "torch/distributed/tensor/_api.py:520 in redistribute: return Redistribute.apply(",
)
COPY = (
    "train.py:130 in checkpoint: torch.save({k: v.float() for k, v in net.state_dict().items()}, path)",
    "train.py:130 in <dictcomp>: torch.save({k: v.float() for k, v in net.state_dict().items()}, path)",
)
WARNING = (
    "/opt/venv/lib/python3.10/site-packages/torch/distributed/fsdp/_state_dict_utils.py:312: "
    "UserWarning: Failed to clone() "
    "tensor with name {name} on rank 0. This may mean that this state_dict entry could point to "
    "invalid memory regions "
    "after returning from state_dict() call if this parameter is managed by FSDP. Please check clone "
    "implementation of "
    "{name}. Error: CUDA out of memory. Tried to allocate 86.00 MiB (GPU 0; 39.39 GiB total "
    "capacity; 37.60 GiB already "
    "allocated; 61.00 MiB free; 38.10 GiB reserved in total by PyTorch)\n"
)


def test_a_full_state_dict_is_gathered() -> None:
    diagnosis = failed(GATHER, oom(), before=steps(1, 100, 10) + "saving checkpoint to out/step_100\n")
    found = finding(diagnosis, "checkpoint_save_gather")
    assert top(diagnosis) == "checkpoint_save_gather"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"request_bytes": gib(2.00)}
    assert found.actions == ("cpu-offload-save",)
    assert "2.00 GiB" in found.says


def test_tensors_that_are_copied_for_the_file() -> None:
    diagnosis = failed(COPY, oom())
    assert top(diagnosis) == "checkpoint_save_gather"
    assert str(diagnosis.phase.phase) == "save"


def test_fsdps_clone_warnings_are_one_certain_finding() -> None:
    log = steps(1, 50) + WARNING.format(name="layers.0.weight") + WARNING.format(name="layers.1.weight")
    diagnosis = diagnosed(log + "Training finished.\n")
    found = finding(diagnosis, "checkpoint_save_gather")
    assert found.certainty is Certainty.CERTAIN
    assert "2 tensors" in found.says
    assert str(diagnosis.phase.phase) == "save"
    assert diagnosis.outcome is Outcome.RECOVERED


def test_a_step_after_a_save_is_not_the_save() -> None:
    log = steps(1, 100) + "saved checkpoint to out/step_100\n" + steps(101, 105)
    assert "checkpoint_save_gather" not in causes(failed(FORWARD, oom(), before=log))
