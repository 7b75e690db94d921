"""Which devices there are, and what libraries read before they use one."""

from __future__ import annotations

import pytest

from oomph.tracing.device.answers import properties
from tests.tracing.programs import traced


@pytest.mark.parametrize(
    ("torch", "cuda"),
    # The CUDA of PyPI's wheel, as PyTorch's release notes name it.
    [
        ((2, 4), "12.1"),
        ((2, 5), "12.4"),
        ((2, 6), "12.4"),
        ((2, 7), "12.6"),
        ((2, 8), "12.8"),
        ((2, 14), "13.0"),
    ],
)
def test_the_cuda_version_is_that_of_the_wheel(torch, cuda):
    assert properties.cuda_version(torch) == cuda


def test_the_device_is_the_named_gpu():
    seen = traced(
        """
        p = torch.cuda.get_device_properties("cuda")
        print(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device())
        print(torch.cuda.is_initialized())
        print(p.name == torch.cuda.get_device_name(), torch.cuda.get_device_capability(), p.multi_processor_count)
        print(torch.cuda.is_bf16_supported(), torch.cuda.is_bf16_supported(including_emulation=False))
        print(torch.version.cuda, torch.backends.cuda.is_built(), torch.backends.cudnn.is_available())
        print(torch.cuda.nccl.version()[:2] >= (2, 10), torch.cuda.can_device_access_peer(0, 0))
        with torch.cuda.device(0):
            print(torch.empty(1, device="cuda").device, torch.accelerator.current_device_index())
        for bad in (1, -2):
            try:
                torch.cuda.set_device(bad)
                print("ignored")
            except Exception as error:
                print("invalid device ordinal" in str(error))
        print(torch.zeros(3).pin_memory().sum().item())
        """
    )
    said = seen.printed.splitlines()
    assert said[:2] == ["True 1 0", "True"]
    # NVIDIA's data sheet: compute capability 8.0, 108 SMs.
    assert said[2] == "True (8, 0) 108"
    assert said[3] == "True True"
    # A CUDA build says its own version.
    built = pytest.importorskip("torch").version.cuda
    assert said[4] == f"{built or '13.0'} True True"
    assert said[5] == "True False"
    assert said[6] == "cuda:0 0"
    # torch.cuda.set_device does nothing for a negative index.
    assert said[7:] == ["True", "ignored", "0.0"]
    assert any("torch.version.cuda is 13.0" in text for text in seen.assumptions) == (built is None)


def test_an_older_gpu_emulates_bfloat16():
    said = traced(
        """
        print(torch.cuda.is_bf16_supported(), torch.cuda.is_bf16_supported(including_emulation=False))
        """,
        gpu="v100-sxm2-16gb",
    ).printed
    assert said == "True False\n"


def test_old_tensor_types():
    said = traced(
        """
        x = torch.cuda.FloatTensor(2, 3)
        y = torch.cuda.LongTensor([1, 2])
        print(tuple(x.shape), x.dtype, x.device, y.tolist(), y.dtype)
        print(isinstance(x, torch.cuda.FloatTensor), isinstance(y, torch.cuda.FloatTensor))
        print(isinstance(torch.ones(1), torch.cuda.FloatTensor))
        """
    ).printed.splitlines()
    assert said == ["(2, 3) torch.float32 cuda:0 [1, 2] torch.int64", "True False", "False"]
