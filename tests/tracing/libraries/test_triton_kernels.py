"""A script that holds Triton kernels runs until it starts one. Torch's CPU build brings no triton."""

from __future__ import annotations

from tests.tracing.programs import traced

KERNELS = """
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4)], key=["n"])
@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    pass

@triton.jit
def helper(x):
    return tl.sum(x, axis=0)
"""


def test_a_script_may_define_kernels():
    seen = traced(
        KERNELS
        + """
x = torch.ones(1000, device="cuda") * 2
print(x.shape[0], triton.cdiv(1000, 128), triton.next_power_of_2(1000), double.__name__)
"""
    )
    # 1000 / 128 = 7.8, and 2**10 is the next power of two.
    assert seen.printed == "1000 8 1024 double\n"


def test_starting_one_is_refused_by_name():
    seen = traced(
        KERNELS
        + """
x = torch.ones(1000, device="cuda")
try:
    double[(8,)](x, 1000, BLOCK=128)
except Exception as error:
    print(type(error).__name__, "double" in str(error), "switch the kernel off" in str(error))
"""
    )
    assert seen.printed == "KernelStartedError True True\n"


def test_libraries_find_that_there_is_no_triton():
    seen = traced("print(torch.utils._triton.has_triton_package())")
    assert seen.printed == "False\n"
