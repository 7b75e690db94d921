"""SGD, Adafactor and Muon against the real classes on simulated memory."""

from __future__ import annotations

import pytest

from oomph.predict.optimizers.adafactor import HubAdafactor, TorchAdafactor
from oomph.predict.optimizers.muon import Muon
from oomph.predict.optimizers.sgd import Sgd
from tests.predict.optimizers.stepping import MIXED, of, parameters, real, said

CASES = [
    pytest.param("torch.optim.SGD(params)", Sgd(), id="sgd"),
    pytest.param("torch.optim.SGD(params, momentum=0.9)", Sgd(momentum=0.9), id="momentum"),
    pytest.param(
        "torch.optim.SGD(params, momentum=0.9, weight_decay=0.1)",
        Sgd(momentum=0.9, weight_decay=True),
        id="decay",
    ),
    pytest.param("torch.optim.SGD(params, weight_decay=0.1)", Sgd(weight_decay=True), id="decay-only"),
    pytest.param(
        "torch.optim.SGD(params, momentum=0.9, fused=True)",
        Sgd(impl="fused", momentum=0.9),
        id="momentum-fused",
    ),
    pytest.param(
        "torch.optim.SGD(params, momentum=0.9, foreach=False, weight_decay=0.1)",
        Sgd(impl="for_loop", momentum=0.9, weight_decay=True),
        id="momentum-loop",
    ),
]


@pytest.mark.parametrize(("make", "stepper"), CASES)
@pytest.mark.parametrize("tensors", [of("float32"), of("bfloat16"), MIXED], ids=["fp32", "bf16", "mixed"])
def test_both_steps_are_those_of_torch(make, stepper, tensors):
    assert said(stepper, parameters(tensors)) == real(make, tensors)


@pytest.mark.parametrize("tensors", [of("float32"), of("bfloat16"), MIXED], ids=["fp32", "bf16", "mixed"])
def test_adafactor_of_torch(tensors):
    assert said(TorchAdafactor(), parameters(tensors)) == real("torch.optim.Adafactor(params)", tensors)


@pytest.mark.parametrize("tensors", [of("float32"), of("bfloat16"), MIXED], ids=["fp32", "bf16", "mixed"])
def test_adafactor_of_transformers(tensors):
    pytest.importorskip("transformers", reason="its Adafactor is what is compared")
    make = "Adafactor(params, lr=1e-3, scale_parameter=False, relative_step=False)"
    setup = "from transformers.optimization import Adafactor"
    assert said(HubAdafactor(), parameters(tensors)) == real(make, tensors, setup)


MATRICES = ((100, 70), (301, 257), (64, 1000), (5000, 11))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_muon_of_torch(dtype):
    assert said(Muon(), parameters(of(dtype, MATRICES))) == real(
        "torch.optim.Muon(params)", of(dtype, MATRICES)
    )


def test_muon_leaves_embeddings_and_vectors_to_adamw():
    """Momentum for the matrix, two moments for the other two: 4 * (1 * 35 + 2 * (12 + 7)) numbers, each rounded up."""
    tensors = [((5, 7), "float32"), ((4, 3), "float32"), ((7,), "float32")]
    named = parameters(tensors, ["mlp.up_proj", "embed_tokens", "norm"])
    assert said(Muon(), named).second_end == 512 * 5
