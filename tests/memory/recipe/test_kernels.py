"""Scratch memory of kernels as expressions. Expected sizes: recorded on GPUs, or written out."""

from __future__ import annotations

import pytest

from oomph.memory.recipe.expression import RecipeError
from oomph.memory.recipe.functions import FUNCTIONS
from oomph.memory.recipe.grammar import parse

A100 = {"sms": 108, "sm_threads": 2048}


def size(text: str, **dimensions: int) -> int:
    return parse(text).evaluate({**A100, **dimensions}, FUNCTIONS)


SUM = "[b, s, h], [s*h, h, 1], [0, 1], [4, 0, 4], [4, 4, 512]"


def test_a_weight_gradients_sum_as_recorded():
    # torch 2.10 on an A100: the sum of a weight gradient [4, 512, 1024] took 16,777,216 bytes, then 32.
    where = {"b": 4, "s": 512, "h": 1024}
    assert size(f"reduce_buffer([0, 4], {SUM}, [sms, sm_threads, 210])", **where) == 16_777_216
    assert size(f"reduce_counters([0, 4], {SUM}, [sms, sm_threads, 210])", **where) == 32
    assert size(f"reduce_buffer([1, 4], {SUM}, [sms, sm_threads, 210])", **where) == 0


def test_a_sum_beyond_32_bits():
    # [131072, 16384] in bfloat16, 4 GiB: two halves, as written out in tests/tracing/kernels/test_reduction.py. The
    # float32 results of both, 65,536 bytes, are taken first.
    text = "[r, c], [c, 1], [0], [2, 0, 2], [4, 4, 512]"
    where = {"r": 131_072, "c": 16_384}
    assert size(f"reduce_accumulator({text})", **where) == 65_536
    halves = [size(f"reduce_buffer([{n}, 4], {text}, [sms, sm_threads, 213])", **where) for n in range(4)]
    assert halves == [4 * 16_384 * 64 * 32 * 4] * 2 + [0, 0]
    assert size(f"reduce_accumulator({text})", r=1000, c=1000) == 0
    with pytest.raises(RecipeError, match="split into 2 kernels, 1 are accounted for"):
        size(f"reduce_buffer([0, 1], {text}, [sms, sm_threads, 213])", **where)


def test_an_embeddings_gradient():
    # 4096 tokens of 8 bytes over 32,000 words of 1024 columns in bfloat16: arrays of 32,768 bytes; ten rows to a part
    # and at most 4096 different words: 409 + 4096 parts of 1024 floats. Up to 3072 tokens take nothing.
    call = "[n, 8, 32000, 1024, 2, 4], [sms, 213]"
    assert [size(f"embedding_scratch({which}, {call})", n=4096) for which in (0, 1, 2, 4)] == [32_768] * 4
    assert size(f"embedding_scratch(5, {call})", n=4096) == 8
    assert size(f"embedding_scratch(12, {call})", n=4096) == (409 + 4096) * 1024 * 4
    assert [size(f"embedding_scratch({which}, {call})", n=3072) for which in range(15)] == [0] * 15


def test_flash_attention():
    # 129 rows count as 256; heads of 80 are computed as 96, those of 200 as 256.
    assert size("flash_row_sums([2, 3, 129])") == 2 * 3 * 256 * 4
    assert size("flash_query_sums([2, 3, 129, 80])") == 2 * 256 * 3 * 96 * 4
    assert size("flash_query_sums([1, 1, 128, 200])") == 128 * 256 * 4
    # 2 x 8 x 32 blocks of 64 rows keep 216 places busy (two per multiprocessor): keys are not split.
    assert size("flash_partials(0, [2, 8, 2048, 2048, 64], sms)") == 0
    # One block and 4096 keys in 16 parts of 256: with one place per part all 16 are best, and only 14 or more come
    # within 15 %; into 14 and 15 parts they divide as into 13 and 8 (by twos), so 16 it is.
    assert size("flash_partials(0, [1, 1, 64, 4096, 64], sms)") == 16 * 64 * 4
    assert size("flash_partials(1, [1, 1, 64, 4096, 64], sms)") == 16 * 64 * 4 * 64


def test_efficient_attention():
    # Heads of 64 in fp32: tiles of 64 x 64 floats and 4 more, 2 of them for 128 rows, for each of 6 heads.
    assert size("efficient_workspace([2, 3, 128, 128, 64, 64], [0, 80, 0])") == 6 * 2 * (64 * 64 + 4) * 4


def test_layer_norm():
    # 65,537 rows of 768: 24 columns of 32, and 32,768 / 24 = 1365 blocks of them at most.
    assert size("layer_norm_partial([65537, 768, 4], [sms, 213])") == 1365 * 768 * 4
    assert size("layer_norm_partial([65536, 768, 4], [sms, 213])") == 0
    assert size("layer_norm_partial([65537, 768, 4], [sms, 206])") == 0
    assert size("layer_norm_partial([65537, 4096, 4], [sms, 213])") == 0
