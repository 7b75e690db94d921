"""The usual mistakes are told in the words that a GPU has for them.

Those of matrix products and broadcasting are what PyTorch itself says for CPU tensors of these shapes, computed here;
those of two devices are quoted from what a GPU prints (`words.py` names the sources).
"""

from __future__ import annotations

import pytest

from tests.tracing.programs import traced

_SHAPES = {
    "mm": "torch.ones(4, 5, device=D) @ torch.ones(6, 7, device=D)",
    "linear": "torch.nn.functional.linear(torch.ones(4, 5, device=D), *torch.nn.Linear(7, 3, device=D).parameters())",
    "linear of three": "torch.nn.functional.linear(torch.ones(2, 4, 5, device=D), torch.ones(3, 7, device=D))",
    "bmm": "torch.bmm(torch.ones(2, 3, 4, device=D), torch.ones(2, 5, 4, device=D))",
    "mv": "torch.ones(4, 5, device=D) @ torch.ones(7, device=D)",
    "add": "torch.ones(2, 4, 5, device=D) + torch.ones(3, 5, device=D)",
    "where": "torch.where(torch.ones(4, device=D) > 0, torch.ones(4, 4, device=D), torch.ones(2, 3, device=D))",
    "in place": "torch.ones(4, 5, device=D).mul_(torch.ones(6, device=D))",
}
_SAID = """
        def said(function):
            try:
                function()
            except RuntimeError as error:
                print(type(error).__name__, error, sep=": ")
"""
_START = "RuntimeError: Expected all tensors to be on the same device, but "


@pytest.mark.parametrize("name", _SHAPES)
def test_shapes_that_do_not_fit(name: str) -> None:
    torch = pytest.importorskip("torch", reason="tracing needs PyTorch")
    with pytest.raises(RuntimeError) as real:
        eval(_SHAPES[name], {"torch": torch, "D": "cpu"})  # noqa: S307 - the test's own lines
    seen = traced(f"""{_SAID}
        D = "cuda"
        said(lambda: {_SHAPES[name]})
    """)
    assert seen.printed == f"RuntimeError: {real.value}\n"


@pytest.mark.parametrize(
    ("line", "argument", "devices", "method"),
    [
        ("torch.ones(4, 5, device='cuda') @ torch.ones(5, 4)", "mat2", ("cuda:0", "cpu"), "mm"),
        ("torch.nn.Linear(5, 3)(torch.ones(4, 5, device='cuda'))", "mat1", ("cpu", "cuda:0"), "addmm"),
        ("torch.nn.Embedding(5, 3).cuda()(torch.tensor([1]))", "index", ("cuda:0", "cpu"), "_index_select"),
        ("torch.ones(4) + torch.ones(4, device='cuda')", "", ("cuda:0", "cpu"), ""),
    ],
)
def test_tensors_on_two_devices(line: str, argument: str, devices: tuple[str, str], method: str) -> None:
    torch = pytest.importorskip("torch", reason="tracing needs PyTorch")
    seen = traced(f"{_SAID}\n        said(lambda: {line})")
    one, other = devices
    expected = f"found at least two devices, {one} and {other}!"
    if argument and tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8):
        expected = f"got {argument} is on {other}, different from other tensors on {one} "
        expected += f"(when checking argument in method wrapper_CUDA_{method})"
    elif argument:
        expected += f" (when checking argument for argument {argument} in method wrapper_CUDA_{method})"
    assert seen.printed == f"{_START}{expected}\n"


def test_a_convolution_wants_its_weight_on_the_device_of_its_input() -> None:
    seen = traced(f"""{_SAID}
        image = torch.ones(1, 3, 8, 8, device="cuda")
        said(lambda: torch.nn.Conv2d(3, 4, 3)(image))
        said(lambda: torch.nn.Conv2d(3, 4, 3, bias=False).half().cuda()(image))
        print(tuple(torch.nn.Conv2d(3, 4, 3).cuda()(image).shape))
    """)
    start = "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type "
    assert seen.printed.splitlines() == [
        f"{start}(torch.FloatTensor) should be the same",
        f"{start}(torch.cuda.HalfTensor) should be the same",
        "(1, 4, 6, 6)",
    ]


def test_backward_of_products_is_said_to_be_more() -> None:
    seen = traced('torch.ones(4, 5, device="cuda").prod()')
    assert not any("cumprod" in one for one in seen.assumptions)
    for line in ("x.prod()", "x.prod(1)", "x.cumprod(0)"):
        seen = traced(f'x = torch.ones(4, 5, device="cuda", requires_grad=True)\n{line}.sum().backward()')
        assert any("`prod` and `cumprod`" in one for one in seen.assumptions)
