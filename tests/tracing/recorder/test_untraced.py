"""What a trace cannot follow is refused in a sentence; what old scripts call works."""

from __future__ import annotations

import textwrap

import pytest

from tests.tracing.programs import traced

_REFUSED = {
    "the extension mine": """
        from torch.utils.cpp_extension import load_inline
        load_inline("mine", cpp_sources="", cuda_sources="", functions=[])
    """,
    "flex_attention": """
        from torch.nn.attention.flex_attention import flex_attention
        q = torch.randn(1, 1, 128, 64, device="cuda")
        torch.compile(flex_attention)(q, q, q)
    """,
    "Nested tensors": """
        layer = torch.nn.Linear(4, 4).cuda()
        layer(torch.nested.nested_tensor([torch.ones(3, 4, device="cuda")], layout=torch.jagged))
    """,
    "Sparse tensors": """
        table = torch.nn.Embedding(10, 4, sparse=True).cuda()
        table(torch.arange(3, device="cuda")).sum().backward()
    """,
}


@pytest.mark.parametrize("words", _REFUSED)
def test_it_is_refused_by_name(words: str) -> None:
    program = textwrap.dedent(_REFUSED[words])
    seen = traced(f"""
from oomph.tracing.errors import TraceRefused
try:
{textwrap.indent(program, "    ")}
    print("it ran")
except TraceRefused as error:
    print(error)
""")
    assert words in seen.printed


def test_the_default_type_of_old_scripts_puts_tensors_on_the_gpu() -> None:
    seen = traced("""
        torch.set_default_tensor_type("torch.cuda.HalfTensor")
        print(torch.zeros(3).device, torch.zeros(3).dtype)
        torch.set_default_tensor_type(torch.cuda.FloatTensor)
        print(torch.zeros(3).device, torch.zeros(3).dtype)
        torch.set_default_tensor_type("torch.FloatTensor")
        print(torch.zeros(3).device)
    """)
    assert seen.printed == "cuda:0 torch.float16\ncuda:0 torch.float32\ncpu\n"


def test_steps_of_cuda_graphs_and_caches_of_compilers_are_nothing() -> None:
    seen = traced("""
        double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        torch.compiler.cudagraph_mark_step_begin()
        print(double(torch.ones(2, device="cuda")).shape)
        torch._dynamo.reset()
    """)
    assert seen.printed == "torch.Size([2])\n"


def test_transformer_layers_run_in_inference() -> None:
    seen = traced("""
        layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 2).cuda().eval()
        x = torch.randn(2, 10, 64, device="cuda")
        with torch.no_grad():
            print(model(x, src_key_padding_mask=torch.zeros(2, 10, dtype=torch.bool, device="cuda")).shape)
    """)
    assert seen.printed == "torch.Size([2, 10, 64])\n"
    assert any("as in training" in one for one in seen.assumptions)
