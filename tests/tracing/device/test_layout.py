"""The order of virtual functions, read from headers that were written for this, and from the installed torch's."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import sys
from pathlib import Path

import pytest

from oomph.errors import UsageError
from oomph.tracing.device import layout as layouts

BASE = """
// a class in a comment: struct AcceleratorHooksInterface { virtual void no() const; };
namespace at {
struct TORCH_API AcceleratorHooksInterface {
  virtual ~AcceleratorHooksInterface() = default;
  virtual bool isAvailable() const {
    return false;
  }
  virtual bool hasPrimaryContext(DeviceIndex device_index) const = 0;
  virtual void init() const {
    TORCH_CHECK(false, "no virtual bool surprise(here) { }");
  }
};
}
"""
DERIVED = """
struct TORCH_API CUDAHooksInterface : AcceleratorHooksInterface {
  ~CUDAHooksInterface() override = default;
  bool hasPrimaryContext([[maybe_unused]] DeviceIndex device_index) const override {
    return false;
  }
  int plain() const { return 1; }
  virtual bool hasROCM() const { return false; }
#ifdef USE_ROCM
  virtual bool isGPUArch(const std::vector<std::string>& archs) const { return false; }
#endif
  virtual const at::cuda::NVRTC& nvrtc() const { TORCH_CHECK(false, CUDA_HELP); }
  virtual int getNumGPUs() const {
    return 0;
  }
};
struct TORCH_API CUDAHooksArgs { virtual void after() const; };
"""


def headers(folder: Path, base: str = BASE, derived: str = DERIVED) -> Path:
    detail = folder / "ATen" / "detail"
    detail.mkdir(parents=True)
    (detail / "AcceleratorHooksInterface.h").write_text(base)
    (detail / "CUDAHooksInterface.h").write_text(derived)
    return folder


def test_a_derived_class_comes_behind_its_base_and_overrides_take_the_base_s_place(tmp_path):
    layout = layouts.hooks_layout(headers(tmp_path))
    # Two words for the destructor, the base's functions, then what the derived class declares anew.
    assert [method.name for method in layout.methods] == [
        "~AcceleratorHooksInterface",
        "~AcceleratorHooksInterface",
        "isAvailable",
        "hasPrimaryContext",
        "init",
        "hasROCM",
        "nvrtc",
        "getNumGPUs",
    ]
    assert layout.place("hasPrimaryContext") == 3
    assert layout.place("isGPUArch") is None
    # The override's body counts, and so does `return 0`.
    zero = [method.name for method in layout.methods if method.returns_zero]
    assert zero == ["isAvailable", "hasPrimaryContext", "hasROCM", "getNumGPUs"]


def test_a_missing_header_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"AcceleratorHooksInterface\.h cannot be read"):
        layouts.hooks_layout(tmp_path)


def test_a_header_without_the_class_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="declares no class CUDAHooksInterface"):
        layouts.hooks_layout(headers(tmp_path, derived="struct Other { virtual void f(); };"))


@pytest.fixture(scope="module")
def installed() -> tuple[layouts.Layout, int]:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or sys.platform != "linux":
        pytest.skip("needs PyTorch on Linux")
    root = Path(spec.origin).parent
    ctypes.CDLL(str(root / "lib/libc10.so"))
    library = ctypes.CDLL(str(root / "lib/libtorch_cpu.so"))
    table = ctypes.addressof(ctypes.c_void_p.in_dll(library, "_ZTVN2at18CUDAHooksInterfaceE"))
    return layouts.hooks_layout(root / "include"), table


def test_the_installed_torch_confirms_what_its_headers_say(installed):
    layout, table = installed
    assert layouts.mismatch(layout, table, platform.machine()) is None


def test_a_function_too_few_is_seen(installed):
    layout, table = installed
    shorter = layouts.Layout(layout.methods[:-1])
    found = layouts.mismatch(shorter, table, platform.machine())
    assert found is not None
    assert "bytes where its headers give" in found


def test_two_functions_that_changed_places_are_seen(installed):
    layout, table = installed
    methods = list(layout.methods)
    first, second = layout.place("isPinnedPtr"), layout.place("getPinnedMemoryAllocator")
    assert first is not None
    assert second is not None
    methods[first], methods[second] = methods[second], methods[first]
    found = layouts.mismatch(layouts.Layout(tuple(methods)), table, platform.machine())
    assert found is not None
    assert "isPinnedPtr" in found


def test_an_unknown_machine_is_said(installed):
    layout, table = installed
    assert layouts.mismatch(layout, table, "riscv64") == "the machine is riscv64"
