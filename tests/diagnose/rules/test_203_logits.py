"""OOM203: tokens x vocabulary."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import BACKWARD, FORWARD, GIB, causes, failed, finding, gib, mib, oom, top

#: 8 sequences of 2,048 tokens over 128,256 entries: 8 x 2048 x 128256 x 4 bytes = 8,405,385,216 = 7.83 GiB.
TOKENS = "per_device_train_batch_size=8\nmax_seq_length: 2048\nvocab_size: 128256\n"
LOGITS = 8 * 2048 * 128_256 * 4
LOSS = (
    "train.py:88 in train: out = model(ids, labels=ids)",
    "torch/nn/modules/module.py:1789 in _call_impl: return forward_call(*args, **kwargs)",
    (
        "transformers/models/llama/modeling_llama.py:475 in forward: loss = "
        "self.loss_function(logits=logits, labels=labels)"
    ),
    "transformers/loss/loss_utils.py:42 in fixed_cross_entropy: loss = nn.functional.cross_entropy(source, target)",
    "torch/nn/functional.py:3555 in cross_entropy: return torch._C._nn.cross_entropy_loss(",
)


def message(request: str) -> str:
    """A full card: 79.15 = 0.25 free + 78.90, and 78.90 - 77.90 - 0.40 = 0.60 GiB are the context."""
    return oom(request, free="0.25 GiB", process="78.90 GiB", allocated="77.90 GiB", cached="0.40 GiB")


@pytest.mark.parametrize(
    "last",
    [
        "torch/nn/functional.py:3555 in cross_entropy: return torch._C._nn.cross_entropy_loss(",
        "train.py:70 in loss_of: logp = logits.log_softmax(-1)",
        "train.py:71 in loss_of: logits = logits.float()",
        (
            "trl/trainer/utils.py:66 in selective_log_softmax: logsumexp_values = "
            "torch.stack([torch.logsumexp(lg, dim=-1)"
        ),
        "megatron/core/tensor_parallel/cross_entropy.py:28 in calculate_logits_max: vocab_parallel_logits.float()",
        "transformers/models/llama/modeling_llama.py:471 in forward: logits = self.lm_head(hidden_states)",
    ],
)
def test_the_loss_asks_for_it(last: str) -> None:
    diagnosis = failed((*LOSS[:2], last), message("3.91 GiB"))
    found = finding(diagnosis, "logits_loss")
    assert top(diagnosis) == "logits_loss"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"request_bytes": gib(3.91)}
    assert found.actions[0] == "chunked-loss"


def test_the_product_of_the_logs_own_figures_is_named() -> None:
    assert round(LOGITS / GIB, 2) == 7.83
    found = finding(failed(LOSS, message("7.83 GiB"), before=TOKENS), "logits_loss")
    assert "16,384 tokens x 128,256 entries x 4 bytes" in found.says


def test_the_product_decides_behind_a_backward_frame() -> None:
    diagnosis = failed(BACKWARD, message("7.83 GiB"), before=TOKENS)
    assert top(diagnosis) == "logits_loss"
    assert "16,384 tokens x 128,256 entries x 4 bytes" in finding(diagnosis, "logits_loss").says


def test_half_precision_logits_count_too() -> None:
    # 8 x 2048 x 128256 x 2 bytes = 3.91 GiB
    diagnosis = failed(BACKWARD, message("3.91 GiB"), before=TOKENS)
    assert "x 2 bytes" in finding(diagnosis, "logits_loss").says


def test_another_size_behind_a_backward_frame_is_not_the_logits() -> None:
    # The MLP of the same batch: 8 x 2048 x 14336 x 2 bytes = 448 MiB
    assert mib(448) == 8 * 2048 * 14336 * 2
    diagnosis = failed(BACKWARD, message("448.00 MiB"), before=TOKENS)
    assert top(diagnosis) == "activations"
    assert "logits_loss" not in causes(diagnosis)


def test_an_mlp_in_the_forward_is_not_the_logits() -> None:
    diagnosis = failed(FORWARD, message("448.00 MiB"), before=TOKENS)
    assert top(diagnosis) == "activations"


def test_generated_code_allocates_a_tensor_as_wide_as_the_vocabulary() -> None:
    # 16384 x 128256 x 2 bytes = 3.91 GiB
    last = (
        "/tmp/torchinductor_user/cx/ccx.py:741 in call: buf9 = empty_strided_cuda((16384, 128256), (128256, 1), "
        "torch.bfloat16)"
    )
    diagnosis = failed((*BACKWARD, last), message("3.91 GiB"))
    found = finding(diagnosis, "logits_loss")
    assert "16,384 x 128,256 x 2 bytes = 3.91 GiB" in found.says
    assert found.certainty is Certainty.POSSIBLE  # a side of that length may be something else


def test_generated_code_with_a_narrow_tensor_is_not_the_logits() -> None:
    # 16384 x 14336 x 2 bytes = 448 MiB: the request, but no side is as long as a vocabulary
    last = (
        "/tmp/torchinductor_user/cx/ccx.py:741 in call: buf9 = empty_strided_cuda((16384, 14336), (14336, 1), "
        "torch.bfloat16)"
    )
    assert "logits_loss" not in causes(failed((*BACKWARD, last), message("448.00 MiB")))
