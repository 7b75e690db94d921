"""Text that talks about a lack of memory, or resembles it, without being one."""

from __future__ import annotations

import pytest

from oomph.evidence.model import Failure, Kind
from tests.evidence.messages.layouts import WRAPS, traceback
from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.samples import ALLOCATOR, SHORT

PROSE = """\
NOTE: if you see 'CUDA out of memory' lower --micro-batch (see docs/oom.md)
Tip: a "CUDA out of memory" error usually means that the batch is too big.
INFO: next idea from the meeting: yesterday's run ran out of memory at seq 16k, so we stay at 8k
INFO: oom_guard enabled: on torch.OutOfMemoryError the step is skipped (0 skipped so far)
INFO: summary: steps 2000, OOM events: 0, skipped batches: 0
WARNING: values above 0.95 may lead to CUDA out of memory errors later
If you hit an out of memory error, try --gradient-checkpointing.
| `torch.OutOfMemoryError: XPU out of memory` | Ensure that inference runs under bf16 |
- **CUDA out of memory**: reduce `per_device_train_batch_size` or set `gradient_accumulation_steps`
3f2a1b9 Fix CUDA out of memory in evaluation (#412)
Closes #88 [Bug]: CUDA out of memory when resuming
 * avoid "RuntimeError: CUDA error: out of memory" on small cards
The job will be restarted automatically after an out-of-memory error.
Some of these settings need more memory; see https://example.org/docs/cuda-out-of-memory
Out of memory? Try the smaller preset.
Not enough memory for cudnn.benchmark; using the default algorithms
"""

HELP = """\
  --oom-retries INT     how often to retry after a CUDA out of memory error [default: 3]
  --skip-oom            go on with the next batch when CUDA runs out of memory
usage: train.py [--on-oom {stop,skip}]  what to do on 'CUDA out of memory. Tried to allocate ...'
oom_retry: true  # on "CUDA out of memory"
skip_on_out_of_memory=True
  "oom_pattern": "CUDA out of memory. Tried to allocate",
retry_on = ["CUDA out of memory", "NCCL error", "CUBLAS_STATUS_ALLOC_FAILED"]
trainer.on_out_of_memory: null
"""

TESTS = """\
INFO: memory test suite: test_cuda_out_of_memory_is_raised ... ok
tests/test_memory.py::test_cuda_out_of_memory PASSED                     [ 41%]
tests/test_memory.py::test_message[CUDA out of memory. Tried to allocate] PASSED
unit tests: 41 passed (incl. 'CUDA out of memory. Tried to allocate' message formatting)
test_oom (tests.test_trainer.OutOfMemoryTest) ... ok
    ✓ treats 'CUDA error: out of memory' as transient (14 ms)
"""

CODE = """\
    if "CUDA out of memory" in str(e):
    if "out of memory" in str(error).lower():
    except torch.cuda.OutOfMemoryError:
    except (RuntimeError, torch.OutOfMemoryError) as e:
    raise RuntimeError(f"CUDA out of memory. Tried to allocate {n}")
    raise RuntimeError(f"CUDA out of memory. Tried to allocate {n / 2**30:.2f} GiB")
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    raise torch.cuda.OutOfMemoryError(message) from error
    match = re.search(r"Tried to allocate ([\\d.]+) (GiB|MiB)", str(e))
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
    assert "CUDA error: out of memory" in caplog.text
    _OOM = ("CUDA out of memory.", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.", "DefaultCPUAllocator: can't allocate")
    # CUDA out of memory. Tried to allocate 64.00 GiB with the default block size
    logger.warning("CUDA out of memory at batch %d, retrying", batch)
    print(f"CUDA out of memory: {e}")
"""

OTHER_ERRORS = """\
RuntimeError: CUDA error: device-side assert triggered
RuntimeError: CUDA error: an illegal memory access was encountered
RuntimeError: CUDA error: no kernel image is available for execution on the device
RuntimeError: CUDA error: misaligned address
RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`
RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED
THCudaCheck FAIL file=/pytorch/aten/src/THC/THCGeneral.cpp line=405 error=11 : invalid argument
RuntimeError: cuda runtime error (59) : device-side assert triggered at /pytorch/aten/src/THC/THCReduceAll.cuh:327
RuntimeError: !block->expandable_segment_ INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":2525
RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at \
"/pytorch/aten/src/ATen/cuda/PeerToPeerAccess.cpp":83, please report a bug to PyTorch.
RuntimeError: The size of tensor a (512) must match the size of tensor b (511) at non-singleton dimension 1
RuntimeError: DataLoader worker (pid 3212) exited unexpectedly with exit code 1
RuntimeError: DataLoader worker (pid 3212) is killed by signal: Segmentation fault.
RuntimeError: Failed to initialize NVML: Driver/library version mismatch
ValueError: Out of range float values are not JSON compliant
Error an illegal memory access was encountered at line 90 in file /src/csrc/ops.cu
OSError: [Errno 28] No space left on device
"""

NCCL = """\
node-0:39:298 [0] bootstrap.cc:301 NCCL WARN [Rem Allocator] Allocation failed (segment 0, fd 130)
node-1:7001:7300 [1] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer node-1<41022>
node-1:7001:7300 [1] NCCL WARN Call to connect returned Connection refused, retrying
node-0:39:298 [0] enqueue.cc:100 NCCL WARN Cuda failure 'invalid argument'
node-0:39:298 [0] enqueue.cc:100 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'
node-0:39:298 [0] enqueue.cc:2061 NCCL WARN HIP failure 'the operation cannot be performed in the present state'
node-0:39:298 [0] NCCL INFO NVLS multicast support is not available on dev 0
node-0:39:298 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
[rank1]:[E1130 07:00:12.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout
"""

EXITS = """\
E0304 09:41:17 4001 torch/distributed/elastic/multiprocessing/api.py:9] failed (exitcode: 1) local_rank: 0 (pid: 9)
E0304 09:41:17 4001 torch/distributed/elastic/multiprocessing/api.py:9] failed (exitcode: -6) local_rank: 1 (pid: 9)
E0304 09:41:17 4001 torch/distributed/elastic/multiprocessing/api.py:9] failed (exitcode: -11) local_rank: 1 (pid: 9)
E0304 09:41:17 4001 torch/distributed/elastic/multiprocessing/api.py:9] failed (exitcode: -15) local_rank: 1 (pid: 9)
W0304 09:41:16.661 4001 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 661 closing signal SIGTERM
[2025-03-04 09:03:40,133] [ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = 1
[2025-03-04 09:03:40,101] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 900
subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.
ray.exceptions.RayTaskError(RuntimeError): ray::TrainWorker.run() (pid=41230, ip=10.0.0.7)
slurmstepd: error: *** STEP 5544.0 ON node-2 CANCELLED AT 2025-03-04T11:50:01 DUE TO TIME LIMIT ***
srun: error: node-2: task 1: Exited with exit code 1
"""

FIGURES = """\
|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |
| Allocated memory      |  75612 MiB |  78120 MiB |   2101 GiB |   2027 GiB |
[utils.py:782:see_memory_usage] MA 0.21 GB         Max_MA 0.21 GB         CA 0.71 GB         Max_CA 1 GB
step 40: allocated 20.10 GiB, reserved 22.00 GiB, 1.00 GiB free of 23.64 GiB (GPU 0)
CUDA memory on GPU 0: 12.00 GiB in use, 23.64 GiB total capacity, 11.64 GiB free
GPU 0 has a total capacity of 23.64 GiB of which 11.64 GiB is free.
Of the allocated memory 17.44 GiB is allocated by PyTorch, and 59.88 MiB is reserved by PyTorch but unallocated.
CUDA 显存：已用 12.00 GiB，GPU 0 共 23.64 GiB，空闲 11.64 GiB
Mémoire CUDA : 12.00 GiB utilisés, GPU 0 : 23.64 GiB au total, 11.64 GiB libres
INFO gpu_executor.py: # GPU blocks: 27896, # CPU blocks: 2048
INFO: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation
| N/A   35C    P0    60W / 400W |  40311MiB / 40960MiB |      0%      Default |
"""

TEXTS = {
    "prose": PROSE,
    "help": HELP,
    "tests": TESTS,
    "code": CODE,
    "errors": OTHER_ERRORS,
    "nccl": NCCL,
    "exits": EXITS,
    "figures": FIGURES,
}
LINES = [
    pytest.param(row, id=f"{name} {number}")
    for name, text in TEXTS.items()
    for number, row in enumerate(text.splitlines(), start=1)
]


def meant(text: str) -> list[Failure]:
    """The failures in `text` that claim a lack of memory: not those marked as talk about one, nor as none."""
    return [
        failure
        for failure in read(text)
        if failure.kind is not Kind.NOT_MEMORY and "mention" not in failure.detail
    ]


@pytest.mark.parametrize("row", LINES)
def test_a_lone_line(row: str):
    assert meant(row) == []


@pytest.mark.parametrize("row", LINES)
def test_the_line_in_a_log(row: str):
    log = f"step 11 | loss 2.314 | mem 11.20 GiB\n{row}\nstep 12 | loss 2.310 | mem 11.21 GiB | 42 MiB free\n"
    assert meant(log) == []
    assert meant("".join(f"[rank{rank}]: {part}\n" for rank in range(2) for part in log.splitlines())) == []


def test_all_of_them_together():
    assert meant("\n".join(TEXTS.values())) == []


@pytest.mark.parametrize("row", [each for each in CODE.splitlines() if each.lstrip().startswith("raise")])
def test_a_traceback_that_shows_the_raising_line_counts_its_message_once(row: str):
    message = ALLOCATOR[2]
    (failure,) = meant(
        "Traceback (most recent call last):\n"
        '  File "/workspace/guard.py", line 12, in reserve\n'
        f"{row}\n"
        f"{message.text}\n"
    )
    assert numbers(failure) == message.numbers


def test_the_code_line_of_an_oom_handler_above_the_message():
    message = ALLOCATOR[-1]
    (failure,) = meant(
        traceback('    if "NPU out of memory" not in str(e):\n        raise torch.OutOfMemoryError(e)\n')
        + message.text
    )
    assert numbers(failure) == message.numbers


@pytest.mark.parametrize(
    "sample", [each for each in SHORT if each.kind is Kind.NOT_MEMORY], ids=lambda sample: sample.id
)
def test_what_is_not_memory_claims_no_numbers(sample):
    failures = read(sample.text)
    assert all(failure.kind is Kind.NOT_MEMORY and not failure.numbers for failure in failures)


@pytest.mark.parametrize("width", [40, 57, 80, 100])
def test_prose_stays_prose_when_it_is_wrapped(width: int):
    for name in ("cut", "wrapped"):
        for row in (*PROSE.splitlines(), *NCCL.splitlines(), *FIGURES.splitlines()):
            assert meant(WRAPS[name](row, width)) == [], (name, row)
