"""Tensors of the simulated GPU that a script prints, pickles or makes lists of."""

from __future__ import annotations

import pytest

from tests.tracing.programs import traced

_PRINTED = {
    "numbers": "torch.ones(3, device=D)",
    "more lines": "torch.ones(2, 3, device=D, dtype=torch.float16)",
    "a function": "torch.ones(2, device=D, requires_grad=True) * 2",
    "whole numbers": "torch.arange(3, device=D)",
    "truth": "torch.arange(3, device=D) > 1",
    "bytes": "torch.zeros(2, dtype=torch.uint8, device=D)",
    "nothing": "torch.empty(0, device=D)",
    "no rows": "torch.empty(0, 3, device=D, dtype=torch.int64)",
    "many": "torch.eye(60, device=D)",
    "a parameter": "torch.nn.Parameter(torch.ones(2, device=D))",
}


@pytest.mark.parametrize("name", _PRINTED)
def test_known_tensors_are_printed_as_real_ones(name: str) -> None:
    torch = pytest.importorskip("torch", reason="tracing needs PyTorch")
    # What the CPU prints, with the device after the numbers.
    real = repr(eval(_PRINTED[name], {"torch": torch, "D": "cpu"}))  # noqa: S307 - the test's own lines
    numbers = real.rindex("]") + 1
    expected = f"{real[:numbers]}, device='cuda:0'{real[numbers:]}"
    assert traced(f'D = "cuda"\nprint({_PRINTED[name]})').printed == f"{expected}\n"


def test_a_printed_tensor_names_its_function_on_a_line_that_has_room() -> None:
    seen = traced('print(torch.ones(2, 3, device="cuda", dtype=torch.float16, requires_grad=True) * 2)')
    # As in torch/_tensor_str.py: a line has 80 characters.
    assert seen.printed == (
        "tensor([[2., 2., 2.],\n        [2., 2., 2.]], device='cuda:0', dtype=torch.float16,\n"
        "       grad_fn=<MulBackward0>)\n"
    )


def test_unknown_tensors_are_printed_with_their_shape() -> None:
    seen = traced("""
        x = torch.randn(4, 5, device="cuda")
        print(x, x.half(), [x.sum()], torch.ones(3, device="cuda"))
        print(torch.nn.Parameter(x.cpu()))
        print(torch.ones(2))
    """)
    assert seen.printed == (
        "tensor(..., device='cuda:0', size=(4, 5)) "
        "tensor(..., device='cuda:0', size=(4, 5), dtype=torch.float16) "
        "[tensor(..., device='cuda:0', size=())] tensor([1., 1., 1.], device='cuda:0')\n"
        "Parameter containing:\ntensor(..., size=(4, 5), requires_grad=True)\n"
        "tensor([1., 1.])\n"
    )


def test_a_pickled_tensor_comes_back_with_memory_of_its_own() -> None:
    seen = traced("""
        import pickle
        x = torch.randn(256, 512, device="cuda").t()
        known = torch.arange(3, device="cuda")
        layer = torch.nn.Linear(512, 512).cuda()
        mark()
        y = pickle.loads(pickle.dumps(x))
        print(tuple(y.shape), y.stride(), y.device, y.dtype)
        print(pickle.loads(pickle.dumps([known, x.cpu(), torch.ones(2)])))
        twin = pickle.loads(pickle.dumps(layer))
        print([isinstance(one, torch.nn.Parameter) and one.requires_grad for one in twin.parameters()])
    """)
    assert seen.printed.splitlines() == [
        "(512, 256) (1, 512) cuda:0 torch.float32",
        "[tensor([0, 1, 2], device='cuda:0'), tensor(..., size=(512, 256)), tensor([1., 1.])]",
        "[True, True]",
    ]
    taken = [size for kind, size in seen.events_after_mark if kind == "alloc"]
    assert taken == [4 * 256 * 512, 3 * 8, 4 * 512 * 512, 4 * 512]


def test_a_shallow_copy_shares_memory_and_a_deep_one_does_not() -> None:
    seen = traced("""
        import copy
        x = torch.randn(256, 256, device="cuda")
        mark()
        print(copy.copy(x).data_ptr() == x.data_ptr(), copy.copy(torch.nn.Parameter(x)).requires_grad)
        y = copy.deepcopy(x)
    """)
    assert seen.printed == "True True\n"
    # A deep copy makes an empty tensor first, of one number (torch/_tensor.py, __deepcopy__).
    assert [size for kind, size in seen.events_after_mark if kind == "alloc" and size > 4] == [4 * 256 * 256]


def test_lists_of_large_tensors_ask_for_no_number_one_by_one() -> None:
    """An operator for each of 262,144 elements took a minute."""
    seen = traced("""
        from oomph.tracing.recorder.recorder import current
        unknown, known = torch.randn(1024, 256, device="cuda"), torch.arange(1 << 17, device="cuda")
        before = current().operators
        lists = unknown.tolist(), unknown.cpu().tolist(), unknown.cpu().numpy().tolist()
        print(*(len(one) == 1024 and one[-1] == [1.0] * 256 for one in lists), known.tolist() == list(range(1 << 17)))
        print(current().operators - before < 20)
        rows = list(unknown)
        print(len(rows), tuple(rows[5].shape), current().operators - before < 40)
    """)
    assert seen.printed.splitlines() == ["True True True True", "True", "1024 (256,) True"]
