"""Logs as short texts, and their diagnosis: messages as PyTorch prints them, tracebacks from "
"`path:line in f: code`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.case import Case
from oomph.diagnose.engine import diagnose
from oomph.diagnose.incidents import group
from oomph.diagnose.model import Diagnosis, Finding
from oomph.evidence.lines import build_document
from oomph.evidence.model import Document, Evidence
from oomph.evidence.read import parse

KIB, MIB, GIB = 1024, 1024**2, 1024**3

SITE = "/opt/venv/lib/python3.11/site-packages/"
_LIBRARY = re.compile(
    r"(?:torch|transformers|trl|peft|accelerate|lightning|deepspeed|diffusers|bitsandbytes|megatron|torchtitan|"
    r"torchtune|recipes|vllm|sglang)/"
)
_FRAME = re.compile(r"(\S.*?):(\d+) in (\S+): ?(.*)$")
HINT = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
    "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


def gib(number: float) -> int:
    """The bytes that a printed number of GiB stands for: `2.92 GiB` is round(2.92 x 2^30)."""
    return round(number * GIB)


def mib(number: float) -> int:
    return round(number * MIB)


def oom(
    request: str = "2.00 GiB",
    *,
    total: str = "79.15 GiB",
    free: str = "1.05 GiB",
    process: str | None = "78.10 GiB",
    others: Sequence[tuple[int, str]] = (),
    allocated: str = "76.40 GiB",
    cached: str = "1.10 GiB",
    pools: str | None = None,
    allowed: str | None = None,
    gpu: int = 0,
    error: str = "torch.OutOfMemoryError: ",
    hint: str = HINT,
) -> str:
    """The message of PyTorch 2.11 and later. The defaults add up: 1.05 + 78.10 = 79.15, and 78.10 - 76.40 - 1.10 =
    0.60 GiB are the context."""
    clauses = [
        f"{error}CUDA out of memory. Tried to allocate {request}. GPU {gpu} has a total capacity of {total}"
    ]
    clauses[0] += f" of which {free} is free."
    clauses += [f"Process {pid} has {used} memory in use." for pid, used in others]
    if process is not None:
        clauses.append(f"Including non-PyTorch memory, this process has {process} memory in use.")
    if allowed is not None:
        clauses.append(f"{allowed} allowed;")
    inside = f", with {pools} allocated in private pools (e.g., CUDA Graphs)," if pools else ","
    clauses.append(f"Of the allocated memory {allocated} is allocated by PyTorch{inside}")
    clauses.append(f"and {cached} is reserved by PyTorch but unallocated.{hint}")
    return " ".join(clauses)


def old_oom(
    request: str = "2.00 GiB",
    *,
    total: str = "79.15 GiB",
    allocated: str = "76.40 GiB",
    free: str = "1.05 GiB",
    reserved: str = "77.50 GiB",
    allowed: str | None = None,
    gpu: int = 0,
) -> str:
    """The message of PyTorch 1.4 to 2.0: reserved in total, no process clauses."""
    cap = f"{allowed} allowed; " if allowed else ""
    return (
        f"RuntimeError: CUDA out of memory. Tried to allocate {request} (GPU {gpu}; {total} total capacity; "
        f"{allocated} already allocated; {free} free; {cap}{reserved} reserved in total by PyTorch) "
        f"If reserved memory "
        "is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory "
        "Management and PYTORCH_CUDA_ALLOC_CONF"
    )


def traceback(frames: Sequence[str], error: str, prefix: str = "") -> str:
    """A Python traceback of `path:line in function: code` frames that ends in `error`."""
    rows = ["Traceback (most recent call last):"]
    for frame in frames:
        match = _FRAME.match(frame)
        assert match is not None, f"not `path:line in function: code`: {frame}"
        path, line, function, code = match.groups()
        if not path.startswith("/"):
            path = SITE + path if _LIBRARY.match(path) else f"/workspace/{path}"
        rows.append(f'  File "{path}", line {line}, in {function}')
        if code:
            rows.append(f"    {code}")
    rows.append(error)
    return "\n".join(prefix + row for row in "\n".join(rows).split("\n")) + "\n"


FORWARD = (
    "train.py:88 in train: logits = model(tokens)",
    "torch/nn/modules/module.py:1778 in _wrapped_call_impl: return self._call_impl(*args, **kwargs)",
    "torch/nn/modules/module.py:1789 in _call_impl: return forward_call(*args, **kwargs)",
    "net.py:31 in forward: x = x + self.mlp(self.norm(x))",
)
BACKWARD = (
    "train.py:91 in train: loss.backward()",
    "torch/_tensor.py:623 in backward: torch.autograd.backward(",
    "torch/autograd/__init__.py:395 in backward: _engine_run_backward(",
    "torch/autograd/graph.py:979 in _engine_run_backward: return Variable._execution_engine.run_backward(",
)
ADAM_STATE = (
    "train.py:93 in train: optimizer.step()",
    "torch/optim/optimizer.py:530 in wrapper: out = func(*args, **kwargs)",
    "torch/optim/adam.py:238 in step: has_complex = self._init_group(",
    'torch/optim/adam.py:178 in _init_group: state["exp_avg"] = torch.zeros_like(',
)
MODEL_TO = (
    'train.py:40 in main: model = GPT(config).to("cuda")',
    "torch/nn/modules/module.py:1383 in to: return self._apply(convert)",
    "torch/nn/modules/module.py:964 in _apply: param_applied = fn(param)",
    "torch/nn/modules/module.py:1369 in convert: return t.to(",
)


def document(text: str, source: str = "train.log", rank: int | None = None) -> Document:
    return build_document(source, [(1, text)], rank=rank)


def evidence(*texts: str) -> Evidence:
    """Each text is one file."""
    return parse([document(text, f"job{index}.log") for index, text in enumerate(texts)])


def diagnosed(*texts: str, rank: int | None = None) -> Diagnosis:
    return diagnose(evidence(*texts), rank=rank)[0]


def failed(frames: Sequence[str], message: str, before: str = "", after: str = "") -> Diagnosis:
    """The diagnosis of a log with one traceback, and what the job printed before and after it."""
    return diagnosed(before + traceback(frames, message) + after)


def case_of(*texts: str) -> Case:
    case = diagnose(evidence(*texts))[1]
    assert case is not None
    return case


def finding(diagnosis: Diagnosis, cause: str) -> Finding:
    """The finding of this cause; fails when there is none."""
    found = [one for one in diagnosis.findings if one.cause == cause]
    assert found, f"no {cause} among {[one.cause for one in diagnosis.findings]}"
    return found[0]


def top(diagnosis: Diagnosis) -> str:
    return diagnosis.findings[0].cause if diagnosis.findings else ""


def causes(diagnosis: Diagnosis) -> list[str]:
    return [one.cause for one in diagnosis.findings]


def ruled_out(diagnosis: Diagnosis, cause: str) -> str:
    """Why this cause was set aside; fails when it was not."""
    found = [one.why for one in diagnosis.ruled_out if one.cause == cause]
    assert found, f"{cause} is not ruled out, but {[one.cause for one in diagnosis.ruled_out]} are"
    return found[0]


def groups(*texts: str) -> int:
    """How many failures the prints of these files are."""
    return len(group(evidence(*texts)))


def steps(first: int, last: int, every: int = 1) -> str:
    """Training steps as a loop prints them."""
    return "".join(
        f"step {number} loss {3 - number / 1000:.4f} lr 1e-4\n" for number in range(first, last + 1, every)
    )
