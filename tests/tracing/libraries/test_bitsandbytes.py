"""bitsandbytes: what its layers and optimizers keep is arithmetic on their shapes."""

from __future__ import annotations

from tests.tracing.libraries.harness import program

_LAYER = """
    import bitsandbytes as bnb, torch
    layer = bnb.nn.Linear4bit(1024, 512, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4",
                              compress_statistics={nested}).to("cuda")
    print(type(layer.weight).__name__, isinstance(layer.weight, bnb.nn.Params4bit), tuple(layer.weight.shape))
    print(torch.cuda.memory_allocated())
"""


def test_a_weight_of_four_bits_keeps_its_scales() -> None:
    seen = program(_LAYER.format(nested=False))
    kind, allocated = seen.printed.splitlines()
    assert kind == "Params4bit True (262144, 1)"
    # Half a byte a weight, a float32 for each 64 of them, and the 16 values of the code (512 is the least block).
    assert int(allocated) == 1024 * 512 // 2 + 1024 * 512 // 64 * 4 + 512


def test_scales_that_are_quantised_themselves() -> None:
    seen = program(_LAYER.format(nested=True))
    scales = 1024 * 512 // 64
    # A byte for each scale, a float32 for each 256 of those, their mean, and three tables: 16 and twice 256 float32.
    kept = 1024 * 512 // 2 + scales + scales // 256 * 4 + (512 - scales // 256 * 4) + 512 + 512 + 1024 + 1024
    assert int(seen.printed.splitlines()[1]) == kept


def test_a_backward_pass_dequantises_the_weight() -> None:
    seen = program(
        _LAYER.format(nested=False)
        + """
    x = torch.zeros(2048, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = layer(x)
    print(torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before)
    y.backward(torch.zeros_like(y))
    print(tuple(x.grad.shape))
    """
    )
    peak, stays = (int(part) for part in seen.printed.splitlines()[2].split())
    result, weight = 2048 * 512 * 2, 1024 * 512 * 2
    workspace = 8519680  # cuBLAS, before Hopper
    assert stays == result + workspace
    assert peak == result + weight + workspace
    assert seen.printed.splitlines()[3] == "(2048, 1024)"


def test_optimizers_of_eight_bits() -> None:
    seen = program(
        """
        import bitsandbytes as bnb, torch
        weight = torch.nn.Parameter(torch.zeros(1024, 1024, device="cuda"))
        kept = []
        for kind in (bnb.optim.AdamW8bit, bnb.optim.PagedAdamW8bit):
            weight.grad = None
            weight.grad = torch.zeros_like(weight)
            before = torch.cuda.memory_allocated()
            kept.append(kind([weight]))
            kept[-1].step()
            print(torch.cuda.memory_allocated() - before)
        """
    )
    whole, paged = (int(line) for line in seen.printed.splitlines())
    n, tables = 1024 * 1024, 2 * 1024
    assert whole == 2 * n + 2 * (n // 256 * 4) + tables
    assert paged == 2 * (n // 256 * 4) + tables
    assert "a paged optimizer holds 2.00 MiB of states in CUDA managed memory" in seen.said


def test_a_quantised_model_from_the_hub_is_loaded_weight_by_weight() -> None:
    seen = program(
        """
        import torch
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig
        model = AutoModelForCausalLM.from_pretrained(
            "meta-llama/Llama-3.1-8B",
            num_hidden_layers=1,
            quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16),
            device_map="auto",
        )
        print(torch.cuda.memory_allocated())
        """
    )
    linear = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    rest = 2 * 128256 * 4096 + 3 * 4096
    # Half a byte a weight, a float32 for each 64, 7 codes; the rest in bfloat16; two buffers of 64 inverse frequencies.
    kept = linear // 2 + linear // 64 * 4 + 7 * 512 + 2 * rest + 2 * 512
    assert int(seen.printed) == kept
    assert "Llama-3.1-8B is taken to hold every weight" in seen.said
