"""OOM204: the optimizer's state, its temporaries, clipping."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import ADAM_STATE, BACKWARD, FORWARD, causes, failed, finding, gib, oom, steps, top

STEP = ADAM_STATE[:2]
FOREACH = (
    *STEP,
    "torch/optim/adam.py:248 in step: adam(",
    "torch/optim/adam.py:970 in adam: func(",
    "torch/optim/adam.py:790 in _multi_tensor_adam: exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)",
)
CLIP = (
    "train.py:92 in train: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "torch/nn/utils/clip_grad.py:230 in clip_grad_norm_: total_norm = _get_total_norm(grads, norm_type)",
    "torch/nn/utils/clip_grad.py:95 in _get_total_norm: norms.extend(torch._foreach_norm(device_tensors, norm_type))",
)
EIGHT_BIT = (
    *STEP,
    "bitsandbytes/optim/optimizer.py:288 in step: self.init_state(group, p, gindex, pindex)",
    (
        "bitsandbytes/optim/optimizer.py:328 in get_state_buffer: return torch.zeros_like(p, "
        "dtype=dtype, device=p.device)"
    ),
)


def test_the_first_step_makes_the_state() -> None:
    diagnosis = failed(ADAM_STATE, oom(), before="***** Running training *****\n")
    found = finding(diagnosis, "optimizer_memory")
    assert top(diagnosis) == "optimizer_memory"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"request_bytes": gib(2.00)}
    assert "state on the first step" in found.says
    assert found.actions == ("eight-bit-optimizer", "shard-optimizer")


def test_a_state_that_is_made_later_is_not_called_the_first_step() -> None:
    assert (
        "first step" not in finding(failed(ADAM_STATE, oom(), before=steps(1, 20)), "optimizer_memory").says
    )


def test_multi_tensor_temporaries_have_another_first_action() -> None:
    found = finding(failed(FOREACH, oom(), before=steps(1, 20)), "optimizer_memory")
    assert found.actions[0] == "foreach-off"
    assert "temporary" in found.says


def test_clipping_is_named() -> None:
    diagnosis = failed(CLIP, oom())
    assert top(diagnosis) == "optimizer_memory"
    assert str(diagnosis.phase.phase) == "optimizer"


def test_eight_bit_states_are_states() -> None:
    assert "state" in finding(failed(EIGHT_BIT, oom()), "optimizer_memory").says


def test_a_backward_or_a_forward_is_not_the_optimizer() -> None:
    for frames in (FORWARD, BACKWARD):
        assert "optimizer_memory" not in causes(failed(frames, oom()))


def test_fragmentation_at_the_optimizers_frame_comes_first() -> None:
    # 32.40 GiB cached of 38.00 + 32.40 = 46 % could hold the 2.00 GiB sixteen times: the frame is not the cause
    message = oom(
        free="0.15 GiB", process="71.00 GiB", total="71.15 GiB", allocated="38.00 GiB", cached="32.40 GiB"
    )
    assert top(failed(ADAM_STATE, message, before=steps(1, 400, 10))) == "fragmentation"
