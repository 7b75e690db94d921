from __future__ import annotations

import pytest

from oomph.probe.surroundings import kernel_log, variables
from oomph.probe.surroundings.seen import Untold
from tests.probe.surroundings.fake_root import made


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_DEBUG",
        "NCLL_DEBUG",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "TORCH_NCCL_BLOCKING_WAIT",
        "CUDA_VISIBLE_DEVICES",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOCAL_RANK",
        "RANK",
        "SLURM_JOB_ID",
        "VLLM_NCCL_SO_PATH",
        "NVIDIA_VISIBLE_DEVICES",
        "nccl_debug",
    ],
)
def test_variables_that_a_check_may_look_at(name):
    assert variables.asked_for(name)


@pytest.mark.parametrize(
    "name",
    ["HOME", "USER", "PATH", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "PGPASSWORD", "NCCL_SECRET_TOKEN",
     "SLURM_PASSWORD", "OPENAI_API_KEY", "DATABASE_URL", "TORCH_API_KEY"],
)  # fmt: skip
def test_variables_that_stay_where_they_are(name):
    assert not variables.asked_for(name)


def test_a_running_process(tmp_path):
    root = made(
        tmp_path, {"/proc/123/environ": "NCCL_DEBUG=INFO\0HF_TOKEN=hf_x\0EMPTY=\0PATH=/bin\0odd\0RANK=3\0"}
    )
    found = variables.environment(root, 123)
    assert not isinstance(found, Untold)
    assert variables.of_interest(found) == {"NCCL_DEBUG": "INFO", "RANK": "3"}
    gone = variables.environment(root, 124)
    assert isinstance(gone, Untold)
    assert gone.why == "there is no process 124 here"


def test_this_process(monkeypatch):
    monkeypatch.setenv("NCCL_IB_HCA", "mlx5_0")
    found = variables.environment()
    assert not isinstance(found, Untold)
    assert variables.of_interest(found)["NCCL_IB_HCA"] == "mlx5_0"


def test_the_kernels_log(tmp_path):
    """/dev/kmsg: "level,sequence,microseconds,flags;text", continuation lines behind a blank (Documentation/ABI)."""
    text = (
        "6,339,5140900,-;usb 1-1: new device\n"
        " SUBSYSTEM=usb\n"
        "4,512,1234567890123,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n"
        "4,513,7,-;nvidia-nvlink: x\n"
    )
    lines = kernel_log.driver_lines(made(tmp_path, {"/dev/kmsg": text}))
    assert not isinstance(lines, Untold)
    (line,) = lines
    assert line == (
        "[1234567.890123] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
    )


def test_no_kernels_log(tmp_path):
    found = kernel_log.driver_lines(tmp_path)
    assert isinstance(found, Untold)
    assert "sudo dmesg | grep -i xid" in found.why


def test_a_log_without_an_end_and_of_any_bytes(tmp_path):
    path = made(tmp_path, {"/dev/kmsg": ""}) / "dev/kmsg"
    path.write_bytes(b"\xff\xfe NVRM nonsense;;,\n1,2,x,-;NVRM: a\nNVRM")
    lines = kernel_log.driver_lines(tmp_path)
    assert not isinstance(lines, Untold)
    assert len(lines) == 3
