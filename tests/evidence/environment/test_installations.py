"""PyTorch's build and packages: environment reports, prints, pip and conda."""

from __future__ import annotations

import pytest

from tests.evidence.environment.texts import given

REPORT = """
Collecting environment information...
PyTorch version: 2.5.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.4 LTS (x86_64)
GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Libc version: glibc-2.35

Python version: 3.11.9 (main, Apr  6 2024, 17:59:24) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-5.15.153.1-microsoft-standard-WSL2-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.1.105
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:
GPU 0: NVIDIA GeForce RTX 4090
GPU 1: NVIDIA GeForce RTX 4090

Nvidia driver version: 551.61
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7
HIP runtime version: N/A
MIOpen runtime version: N/A
Is XNNPACK available: True

CPU:
Architecture:                       x86_64
CPU(s):                             32
On-line CPU(s) list:                0-31

Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] nvidia-cudnn-cu12==9.1.0.70
[pip3] nvidia-nccl-cu12==2.21.5
[pip3] torch==2.5.1
[conda] Could not collect
"""


def test_a_report_of_pytorch(tmp_path) -> None:
    told = given(tmp_path, REPORT)
    (build,) = told.torch
    assert (build.version, build.local, build.cuda, build.available) == ("2.5.1", "cu124", "12.4", True)
    assert build.quote.text == "PyTorch version: 2.5.1+cu124"
    assert told.driver.value == "551.61"
    assert [one.value for one in told.toolkits] == ["12.1.105"]
    assert told.system.value == "Ubuntu 22.04.4 LTS (x86_64)"
    assert told.wsl.value
    assert [(one.index, one.name) for one in told.cards] == [
        (0, "NVIDIA GeForce RTX 4090"),
        (1, "NVIDIA GeForce RTX 4090"),
    ]
    assert told.host.vcpus.value == 32
    assert told.packages["nvidia-nccl-cu12"][0].value == "2.21.5"
    assert "numpy" in told.packages


def test_a_build_without_cuda(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        PyTorch version: 2.3.0+cpu
        CUDA used to build PyTorch: Could not collect
        Is CUDA available: False
        """,
    )
    (build,) = told.torch
    assert (build.version, build.local, build.cuda, build.available) == ("2.3.0", "cpu", None, False)
    told = given(
        tmp_path, "PyTorch version: 2.3.0\nCUDA used to build PyTorch: None\nIs CUDA available: False\n"
    )
    assert told.torch[0].cuda is None


def test_rocm(tmp_path) -> None:
    (build,) = given(
        tmp_path, "PyTorch version: 2.4.0+rocm6.1\nROCM used to build PyTorch: 6.1.40091-a8dbc0c19\n"
    ).torch
    assert (build.cuda, build.local) == (None, "rocm6.1")
    assert build.hip.startswith("6.1")


def test_reports_of_transformers_and_accelerate(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        - `Accelerate` version: 0.34.2
        - Platform: Linux-5.15.0-1053-aws-x86_64-with-glibc2.31
        - PyTorch version (GPU?): 2.4.1+cu121 (True)
        - System RAM: 1121.80 GB
        - GPU type: NVIDIA A100-SXM4-40GB
        """,
    )
    (build,) = told.torch
    assert (build.version, build.cuda, build.available) == ("2.4.1", "12.1", True)
    assert told.cards[0].name == "NVIDIA A100-SXM4-40GB"
    # Printed with two decimals of 1024**3 bytes each.
    assert abs(told.host.ram_bytes.value - int(1121.80 * 2**30)) < 2**20


@pytest.mark.parametrize(
    ("text", "version", "cuda"),
    [
        ("2.1.0+cu118\n", "2.1.0", "11.8"),
        ("torch 2.3.1+cu121 cuda 12.1\n", "2.3.1", "12.1"),
        ("torch.__version__ = 2.0.1+cu117\n", "2.0.1", "11.7"),
        (">>> torch.__version__\n'2.2.2'\n>>> torch.version.cuda\n'12.1'\n", "2.2.2", "12.1"),
        (
            '$ python -c "import torch; print(torch.__version__, torch.version.cuda)"\n2.2.2 12.1\n',
            "2.2.2",
            "12.1",
        ),
        (
            '$ python -c "import torch; print(torch.__version__, torch.version.cuda)"\n2.2.2 None\n',
            "2.2.2",
            None,
        ),
        ("+ python -c 'import torch; print(torch.__version__)'\n2.9.0+cu130\n", "2.9.0", "13.0"),
    ],
)
def test_what_pytorch_prints(tmp_path, text: str, version: str, cuda: str | None) -> None:
    build = given(tmp_path, text).torch[-1]
    assert (build.version, build.cuda) == (version, cuda)


def test_architectures_cudnn_and_nccl(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        >>> torch.__version__
        '2.1.0+cu121'
        >>> torch.cuda.get_arch_list()
        ['sm_50', 'sm_60', 'sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_90', 'compute_90']
        >>> torch.backends.cudnn.version()
        8902
        >>> torch.cuda.nccl.version()
        (2, 18, 1)
        >>> torch.cuda.is_available()
        True
        """,
    )
    (build,) = told.torch
    assert build.architectures[0] == "sm_50"
    assert build.architectures[-1] == "compute_90"
    assert (build.cudnn, build.nccl, build.available) == ("8.9.2", "2.18.1", True)


def test_cards_by_their_properties(tmp_path) -> None:
    told = given(
        tmp_path,
        "GPU 0: NVIDIA A10G\n_CudaDeviceProperties(name='NVIDIA A10G', major=8, minor=6, total_memory=22731MB)\n",
    )
    assert [one.capability for one in told.cards] == [(8, 6)]


def test_a_warning_tells_card_and_architectures(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        NVIDIA GeForce RTX 5080 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
        The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.
        """,
    )
    assert [(one.name, one.capability) for one in told.cards] == [("NVIDIA GeForce RTX 5080", (12, 0))]
    assert told.torch[0].architectures[-1] == "sm_90"
    assert len(told.errors) == 2


def test_too_old_a_driver_tells_its_cuda(tmp_path) -> None:
    told = given(
        tmp_path,
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    )
    assert told.driver_cuda.value == "11.4"


def test_pip_list(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        $ pip list
        Package                  Version      Editable project location
        ------------------------ ------------ -------------------------
        accelerate               0.34.2
        my-trainer               0.1.0        /home/me/trainer
        nvidia_cudnn_cu12        8.9.2.26
        torch                    2.3.1+cu118
        """,
    )
    assert told.packages["nvidia-cudnn-cu12"][0].value == "8.9.2.26"
    assert told.packages["my-trainer"][0].value == "0.1.0"
    assert (told.torch[0].version, told.torch[0].cuda, told.torch[0].wanted) == ("2.3.1", "11.8", False)


def test_conda_list(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        # packages in environment at /opt/conda:
        #
        # Name                    Version                   Build  Channel
        _libgcc_mutex             0.1                        main
        pytorch                   2.1.2           py3.10_cuda12.1_cudnn8.9.2_0    pytorch
        pytorch-cuda              12.1                 ha16c6d3_5    pytorch
        nvidia-nccl-cu12          2.19.3                   pypi_0    pypi
        """,
    )
    (build,) = told.torch
    assert (build.version, build.cuda, build.cudnn) == ("2.1.2", "12.1", "8.9.2")
    assert told.packages["nvidia-nccl-cu12"][0].value == "2.19.3"


@pytest.mark.parametrize(
    ("string", "cuda"),
    [
        ("py3.11_cuda11.8_cudnn8.7.0_0", "11.8"),
        ("cuda120_py310h2ef2e6d_301", "12.0"),
        ("cpu_generic_py310h1234567_0", None),
        ("py3.10_cpu_0", None),
    ],
)
def test_conda_builds(tmp_path, string: str, cuda: str | None) -> None:
    told = given(tmp_path, f"# Name  Version  Build  Channel\npytorch   2.1.0   {string}   conda-forge\n")
    assert told.torch[0].cuda == cuda


def test_requirements_are_wanted(tmp_path) -> None:
    told = given(
        tmp_path, "torch==2.4.0\ntransformers>=4.44\n# pinned for the cluster\nnumpy==1.26.4\n", "reqs.txt"
    )
    assert (told.torch[0].version, told.torch[0].wanted) == ("2.4.0", True)
    assert "transformers" not in told.packages


def test_a_lone_local_version_in_freeze_is_no_second_build(tmp_path) -> None:
    told = given(tmp_path, "torch==2.4.0+cu121\ntorchvision==0.19.0+cu121\ntorchaudio==2.4.0+cu121\n")
    assert [one.version for one in told.torch] == ["2.4.0"]


def test_what_pytorch_asks_for(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        Metadata-Version: 2.1
        Name: torch
        Version: 2.3.1
        Requires-Dist: filelock
        Requires-Dist: nvidia-cudnn-cu12 ==8.9.2.26 ; platform_system == "Linux" and platform_machine == "x86_64"
        Requires-Dist: nvidia-nccl-cu12 (==2.20.5) ; platform_system == "Linux"
        """,
    )
    assert {name: one.value for name, one in told.pins.items()} == {
        "nvidia-cudnn-cu12": "8.9.2.26",
        "nvidia-nccl-cu12": "2.20.5",
    }
    assert told.torch[0].version == "2.3.1"


def test_two_versions_of_a_package_are_both_kept(tmp_path) -> None:
    told = given(tmp_path, "nvidia-nccl-cu12==2.18.1\ntorch==2.3.1\n\n[pip3] nvidia-nccl-cu12==2.20.5\n")
    assert [one.value for one in told.packages["nvidia-nccl-cu12"]] == ["2.18.1", "2.20.5"]


@pytest.mark.parametrize(
    "text",
    [
        "xFormers was built for: PyTorch 2.1.0+cu121 with CUDA 1201 (you have 2.1.1+cpu)",
        "torch 2.4.0 is required",
        "Please install torch 2.0.1+cu118 first",
    ],
)
def test_sentences_about_another_build(tmp_path, text: str) -> None:
    told = given(tmp_path, f"NCCL_DEBUG=INFO\n{text}\n")
    assert told.torch == ()


def test_a_conda_environment(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        name: train
        channels: [pytorch]
        dependencies:
          - python=3.10
          - pytorch=2.1.0=py3.10_cuda12.1_cudnn8.9.2_0
          - pip:
              - nvidia-nccl-cu12==2.18.1
        """,
        "environment.yml",
    )
    (build,) = told.torch
    assert (build.version, build.cuda, build.wanted) == ("2.1.0", "12.1", True)
    assert told.packages["nvidia-nccl-cu12"][0].value == "2.18.1"


def test_no_version_is_pinned(tmp_path) -> None:
    told = given(tmp_path, "torch>=2.1,<3\ntransformers>=4.40\n", "requirements.txt")
    assert [(one.version, one.cuda, one.wanted) for one in told.torch] == [("", "", True)]


def test_a_list_of_packages_without_its_head(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        (base) me@node:~$ pip list | grep torch
        torch                     2.4.0+cu121
        torchvision               0.19.0+cu121
        torchaudio                2.4.1+cu121
        """,
    )
    assert [(one.version, one.cuda) for one in told.torch] == [("2.4.0", "12.1")]
    assert told.packages["torchvision"][0].value == "0.19.0+cu121"


def test_a_row_of_another_package_is_no_version_of_torch(tmp_path) -> None:
    told = given(tmp_path, "torch                     2.4.0+cu121\ntorchvision               0.19.0+cu121\n")
    assert [one.version for one in told.torch] == ["2.4.0"]
