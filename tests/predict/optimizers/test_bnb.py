"""bitsandbytes: the installed version's own classes on simulated memory, and arithmetic for what it no longer does."""

from __future__ import annotations

import pytest

from oomph.predict.optimizers.bnb import Bitsandbytes
from tests.predict.optimizers.stepping import SHAPES, of, parameters, real, said

#: 4,096 elements and more are 8-bit, 100,000 and more are paged.
TENSORS = of("bfloat16", (*SHAPES, (64, 64), (63, 65), (4000, 30)))

CASES = [
    pytest.param("bnb.optim.AdamW(params, optim_bits=8)", Bitsandbytes(), id="adamw-8bit"),
    pytest.param("bnb.optim.AdamW(params, optim_bits=32)", Bitsandbytes(bits=32), id="adamw-32bit"),
    pytest.param(
        "bnb.optim.AdamW(params, optim_bits=8, is_paged=True)", Bitsandbytes(paged=True), id="paged-8bit"
    ),
    pytest.param("bnb.optim.PagedAdamW32bit(params)", Bitsandbytes(bits=32, paged=True), id="paged-32bit"),
    pytest.param("bnb.optim.Lion8bit(params)", Bitsandbytes(states=1), id="lion-8bit"),
]


@pytest.mark.parametrize(("make", "stepper"), CASES)
def test_both_steps_are_those_of_bitsandbytes(make, stepper):
    pytest.importorskip("bitsandbytes", reason="its classes are what is compared")
    assert said(stepper, parameters(TENSORS)) == real(make, TENSORS, "import bitsandbytes as bnb")


def test_blocks_were_larger_before_0_44():
    """2**20 elements: two states of one byte, two maps of 1,024 bytes, two arrays of 2**20 / 2048 fp32 maxima."""
    params = parameters(of("bfloat16", ((1024, 1024),)))
    assert said(Bitsandbytes(block=2048), params).second_end == 2 * (2**20 + 1024 + 4 * 512)


def test_embeddings_keep_fp32_states_where_asked():
    """2**20 elements of an embedding in fp32 twice, as many of an output layer in 8 bits."""
    params = parameters(of("bfloat16", ((1024, 1024),) * 2), ["model.embed_tokens.weight", "lm_head.weight"])
    eight = 2 * (2**20 + 1024 + 4 * 4096)
    assert said(Bitsandbytes(fp32_embeddings=True), params).second_end == 2 * 4 * 2**20 + eight
