# ruff: noqa: E501 (lines as the tools print them)
"""Versions, GPUs, platforms, allocator settings."""

import pytest

from tests.evidence.facts.text import pairs, settings


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("monai 1.4.0, torch 2.6.0+cu124", "2.6.0+cu124"),
        ("PyTorch 1.13.1, CUDA 11.7, 1 device(s)", "1.13.1"),
        ("torch version .................... 1.8.1", "1.8.1"),
        ("torch 1.0.1 cuda 9.0", "1.0.1"),
        ("  torch==2.1.0", "2.1.0"),
        ("- PyTorch version (GPU?): 2.1.0+cu118 (True)", "2.1.0+cu118"),
        ("PyTorch version: 2.4.0+cu121", "2.4.0+cu121"),
        ("'torch_version': '2.5.1'", "2.5.1"),
        ("PyTorch Version 2.1.0a0+32f93b1", "2.1.0a0+32f93b1"),
        ("Ultralytics 8.3.40 Python-3.11.9 torch-2.5.1+cu121 CUDA:0 (Tesla T4, 15102MiB)", "2.5.1+cu121"),
        ("Torch: 2.6.0+cu124. CUDA: 8.9. CUDA Toolkit: 12.4. Triton: 3.2.0", "2.6.0+cu124"),
    ],
)
def test_torch(line, version):
    assert pairs(line, "torch_version") == [("torch_version", version)]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("PyTorch 1.13.1, CUDA 11.7, 1 device(s)", "11.7"),
        ("torch 2.6.0+cu124", "12.4"),
        ("CUDA used to build PyTorch: 12.1", "12.1"),
        ("| NVIDIA-SMI 470.82.01   Driver Version: 470.82.01   CUDA Version: 11.4     |", "11.4"),
        ("Torch: 2.6.0. CUDA: 8.9. CUDA Toolkit: 12.4. Triton: 3.2.0", "12.4"),
    ],
)
def test_cuda(line, version):
    assert pairs(line, "cuda_version") == [("cuda_version", version)]
    assert "torch_version" not in settings("CUDA used to build PyTorch: 12.1")


def test_driver():
    assert pairs("wsl2, driver 551", "driver_version") == [("driver_version", "551")]
    assert pairs("Nvidia driver version: 535.104.05", "driver_version") == [("driver_version", "535.104.05")]


@pytest.mark.parametrize(
    "line",
    [
        "NCCL version 2.18.1+cuda12.1",
        "PyTorch 2.6 or newer is required",
        "this needs torch 2.4",
        "deprecated since torch 2.1, use the new name",
        "Please install torch>=2.4",
        "torchvision 0.15.2",
        "installed with PyTorch 2.0",
        "cuda:0 is used",
    ],
)
def test_talk_about_versions(line):
    assert pairs(line, "torch_version", "cuda_version", "driver_version") == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("device: cuda:0 (MX250)", "MX250"),
        ("Using cuda: GeForce GTX 1660 Ti", "GeForce GTX 1660 Ti"),
        ("cuda:0 Tesla P40 (vGPU)", "Tesla P40"),
        ("device cuda (GTX 1650 Mobile)", "GTX 1650 Mobile"),
        ("using device xpu:0 (Arc A770)", "Arc A770"),
        ("GPU 0: NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("GPU 0,1,2,3: Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("CUDA capacity: NVIDIA H100 80GB HBM3 with 79.11GiB memory", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA GeForce RTX 4090. Num GPUs = 1. Max memory: 23.643 GB.", "NVIDIA GeForce RTX 4090"),
        ("device: AMD Instinct MI300X", "AMD Instinct MI300X"),
        ("device name: NVIDIA RTX A6000", "NVIDIA RTX A6000"),
    ],
)
def test_gpu_names(line, name):
    assert pairs(line, "gpu_name") == [("gpu_name", name)]


def test_gpu_name_in_talk():
    assert pairs("this recipe needs an NVIDIA A100-SXM4-80GB GPU", "gpu_name") == []


@pytest.mark.parametrize(
    ("line", "size"),
    [
        # Unsloth divides by 1024**3 three times and rounds to three digits
        ("Tesla T4. Num GPUs = 1. Max memory: 14.741 GB. Platform: Linux.", round(14.741 * 2**30)),
        ("5 GPUs detected, 5 x 7.80 GiB", round(7.8 * 2**30)),
        ("CUDA:0 (Tesla T4, 15102MiB)", 15102 * 2**20),
        (
            "_CudaDeviceProperties(name='NVIDIA A100-SXM4-40GB', major=8, minor=0, total_memory=40354MB)",
            40354 * 2**20,
        ),
        (
            "the current vLLM instance can use total_gpu_memory (79.11GiB) x gpu_memory_utilization (0.30)",
            round(79.11 * 2**30),
        ),
        ("CUDA capacity: NVIDIA H100 80GB HBM3 with 79.11GiB memory", round(79.11 * 2**30)),
    ],
)
def test_gpu_totals(line, size):
    assert pairs(line, "gpu_total_bytes") == [("gpu_total_bytes", str(size))]


@pytest.mark.parametrize(
    ("line", "platform"),
    [
        ("uname: Linux 5.15.90.1-microsoft-standard-WSL2", "wsl2"),
        ("wsl2, paged_adamw_32bit, qlora 7b", "wsl2"),
        ("C:\\work>call venv\\Scripts\\activate.bat", "windows"),
        ('  File "D:\\\\data\\\\train.py", line 3, in <module>', "windows"),
        ("torch 1.8.1, Windows-10", "windows"),
        ("device: mps, macOS 15", "macos"),
        ('  File "/Users/ada/train.py", line 3, in <module>', "macos"),
        ('  File "/kaggle/working/train.py", line 301, in <module>', "kaggle"),
        ('  File "/content/train.py", line 3, in <module>', "colab"),
        ("platform linux -- Python 3.12.3, pytest-8.4.2", "linux"),
    ],
)
def test_platforms(line, platform):
    assert pairs(line, "platform") == [("platform", platform)]


def test_a_platform_is_named_once():
    assert len(pairs('  File "/kaggle/working/a.py", line 1\n' * 5, "platform")) == 1


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "expandable_segments:True"),
        ("+ export PYTORCH_ALLOC_CONF='expandable_segments:True,max_split_size_mb:256'", "expandable_segments:True,max_split_size_mb:256"),
        ("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", "max_split_size_mb:128"),
        ("PYTORCH_HIP_ALLOC_CONF=garbage_collection_threshold:0.8 python train.py", "garbage_collection_threshold:0.8"),
        ('os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"', "backend:cudaMallocAsync"),
        ('  "PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:[256:1,512:2,>:4]",', "roundup_power2_divisions:[256:1,512:2,>:4]"),
        ("C:\\work>set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64", "max_split_size_mb:64"),
        ("PYTORCH_CUDA_ALLOC_CONF: expandable_segments:False", "expandable_segments:False"),
    ],
)  # fmt: skip
def test_allocator_settings(line, value):
    assert pairs(line, "alloc_conf") == [("alloc_conf", value)]


@pytest.mark.parametrize(
    "text",
    [
        "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "If reserved but unallocated memory is large try setting\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        "memory is large try setting\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\nto avoid fragmentation.",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\nto avoid fragmentation.  See documentation",
        "NOTE: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True helps sometimes",
        "you could run with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "# export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF is not set",
    ],
)
def test_the_allocators_advice_is_no_setting(text):
    assert pairs(text, "alloc_conf") == []


def test_memory_fraction():
    assert pairs("torch.cuda.set_per_process_memory_fraction(0.5)") == [("memory_fraction", "0.5")]
    assert pairs("torch.cuda.set_per_process_memory_fraction(fraction=0.25, device=0)") == [
        ("memory_fraction", "0.25")
    ]
    assert pairs("memory_fraction: 0.8") == [("memory_fraction", "0.8")]
    assert pairs("you should call set_per_process_memory_fraction(0.5)") == []


def test_host():
    line = "[2025-03-04 09:02:51,431] [INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 241.11 GB, percent = 96.0%"
    assert pairs(line) == [("host_memory_percent", "96.0")]
    line = "Memory on the node where the task (pid=991, memory used=4.10GB) was running was 120.44GB / 125.70GB (0.958154), which"
    assert pairs(line) == [("host_memory_percent", "95.8154")]
    assert pairs("srun --mem=64G --gres=gpu:4 python train.py", "host_limit") == [("host_limit", "64G")]
    assert pairs("#SBATCH --mem=128000M", "host_limit") == [("host_limit", "128000M")]
    assert pairs("    Limits:\n      cpu:     8\n      memory:  64Gi\n") == [("host_limit", "64Gi")]
    assert pairs("    Requests:\n      memory:  64Gi\n") == []
    assert pairs("docker run --gpus all --memory=32g image python t.py", "host_limit") == [
        ("host_limit", "32g")
    ]
    assert pairs("#SBATCH --mem-per-cpu=4G", "host_limit") == []
