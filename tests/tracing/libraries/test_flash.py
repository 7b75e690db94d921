"""The stand-in for flash_attn: bytes from the shapes, as flash-attn's csrc/flash_attn/flash_api.cpp allocates them."""

from __future__ import annotations

from tests.tracing.libraries.harness import program

_MODEL = """
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig
    from oomph.tracing.libraries.flash import flash_attn_func, flash_attn_varlen_func
    def bytes_of(call):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = call()
        print(torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before)
        return result
"""


def test_forward_keeps_the_result_and_its_sums() -> None:
    seen = program(
        _MODEL
        + """
    q = torch.zeros(2, 256, 8, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.zeros(2, 256, 2, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    out = bytes_of(lambda: flash_attn_func(q, k, v, causal=True))
    grad = torch.zeros_like(out)
    bytes_of(lambda: torch.autograd.grad(out, (q, k, v), grad))
    """
    )
    forward, backward = (tuple(int(part) for part in line.split()) for line in seen.printed.splitlines())
    rows = 2 * 256 * 8
    assert forward[0] == rows * 64 * 2 + rows * 4 + 512
    gradients = rows * 64 * 2 + 2 * (2 * 256 * 2 * 64 * 2)
    sums = rows * 4 + rows * 64 * 4
    all_heads = 2 * rows * 64 * 2
    assert backward[1] == gradients + sums + all_heads


def test_sequences_end_to_end() -> None:
    seen = program(
        _MODEL
        + """
    q, k, v = (torch.zeros(300, 4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    ends = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")
    out = bytes_of(lambda: flash_attn_varlen_func(q, k, v, ends, ends, 200, 200))
    grad = torch.zeros_like(out)
    bytes_of(lambda: torch.autograd.grad(out, (q, k, v), grad))
    """
    )
    forward, backward = (tuple(int(part) for part in line.split()) for line in seen.printed.splitlines())

    def block(size: int) -> int:
        return -(-size // 512) * 512

    assert forward[0] == block(300 * 4 * 64 * 2) + block(300 * 4 * 4) + 512
    padded = 300 + 128 * 2
    sums = block(padded * 4 * 4) + block(padded * 4 * 64 * 4)
    assert backward[1] == 3 * block(300 * 4 * 64 * 2) + sums


def test_a_model_that_asks_for_it() -> None:
    seen = program(
        """
        import torch
        from transformers import AutoModelForCausalLM, LlamaConfig
        config = LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
                             num_key_value_heads=2, vocab_size=100)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="flash_attention_2", dtype=torch.bfloat16)
        model.to("cuda")
        ids = torch.ones(2, 16, dtype=torch.long, device="cuda")
        mask = torch.ones(2, 16, dtype=torch.long)
        mask[1, 8:] = 0
        model(input_ids=ids, attention_mask=mask.to("cuda"), labels=ids).loss.backward()
        import flash_attn
        print(flash_attn.__version__)
        """
    )
    assert seen.printed == "2.8.3\n"
    assert "flash_attn is a stand-in" in seen.said
