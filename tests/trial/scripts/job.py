"""A job without PyTorch that runs out of memory from --batch LIMIT on, by what it prints, as PyTorch prints it.

Each start is a line of the file `started` in the working directory. At a batch of --odd it does something else.
"""

import argparse
import os
import subprocess
import sys
import time

MESSAGE = """Traceback (most recent call last):
  File "/work/train.py", line 31, in <module>
    loss.backward()
  File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 581, in backward
    torch.autograd.backward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.15 GiB of \
which 301.00 MiB is free. Including non-PyTorch memory, this process has 78.85 GiB memory in use. Of the allocated \
memory 77.10 GiB is allocated by PyTorch, and 1.02 GiB is reserved by PyTorch but unallocated. If reserved but \
unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See \
documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)
"""
NCCL = """Traceback (most recent call last):
  File "/work/train.py", line 12, in <module>
    dist.all_reduce(x)
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled system \
error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5
"""

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int)
parser.add_argument("--limit", type=int, default=4)
parser.add_argument("--odd", type=int)
parser.add_argument("--how", default="")
given = parser.parse_args()

with open("started", "a") as file:
    file.write(f"{given.batch}\n")
if given.batch == given.odd:
    if given.how == "crash":
        raise ValueError("the batch has to be even")
    if given.how == "hang":
        # With a process of its own that would go on, and that ignores a polite request.
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        time.sleep(600)
    if given.how == "wait" and not os.path.exists("go"):
        time.sleep(600)
    if given.how == "fill":
        with open(os.path.join(os.environ["TMPDIR"], "full"), "wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
                time.sleep(0.005)
    if given.how == "nccl":
        sys.stderr.write(NCCL)
        sys.exit(1)
    if given.how == "memory":
        held = [b"x" * (4 << 20) for _ in range(100)]
        time.sleep(600)
if given.batch >= given.limit:
    sys.stderr.write(MESSAGE)
    sys.exit(1)
