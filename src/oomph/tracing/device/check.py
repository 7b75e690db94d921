"""Whether this torch can be traced, found out in a process of its own: what goes wrong there may be a crash.

The result is remembered for each build of torch in the user's cache folder ($XDG_CACHE_HOME/oomph or ~/.cache/oomph);
where that cannot be written the check runs every time (a few seconds).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from oomph.errors import OomphError, UsageError

#: Long enough to import torch from a cold disk.
_TIMEOUT_SECONDS = 300
#: How the process says that it refused with a sentence.
_REFUSED = 3
_ALTERNATIVE = (
    "Another build of torch (2.4 to 2.14) may work; `pip install torch` into a new environment gives one."
)


def check() -> None:
    """Returns when fake CUDA tensors work in the installed torch; does not import it here.

    Raises UsageError, one sentence, when torch is missing, refuses, fails or crashes. Only success is remembered.
    """
    library = _library()
    memory = _folder() / f"torch-{_key(library)}.json"
    if _remembered(memory):
        return
    try:
        done = subprocess.run(  # noqa: S603 - this Python, our own module
            [sys.executable, "-m", __name__],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"Cannot trace: trying the installed torch took more than {_TIMEOUT_SECONDS} s. {_ALTERNATIVE}"
        ) from None
    if done.returncode == _REFUSED:
        raise UsageError(done.stdout.strip())
    if done.returncode != 0:
        raise UsageError(f"Cannot trace with the installed torch: {_reason(done)}. {_ALTERNATIVE}")
    _remember(memory, library)


def _library() -> Path:
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise UsageError(
            "oomph trace runs your script with the PyTorch of this Python, and there is none: install torch (the CPU "
            "build is enough), or call oomph with the Python of your project (python -m oomph trace ...)."
        )
    return Path(spec.origin)


def _key(library: Path) -> str:
    """Where torch is, which one, and which Python: another one of these is checked anew."""
    stamp = ""
    for name in ("version.py", "lib/libtorch_cpu.so"):
        with suppress(OSError):
            found = (library.parent / name).stat()
            stamp += f"{name} {found.st_size} {found.st_mtime_ns} "
    text = f"{library} {stamp}{sys.version} {_own_stamp()}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _own_stamp() -> str:
    """The code that is checked: a change of it is checked anew."""
    folder = Path(__file__).parent
    return " ".join(
        str((folder / name).stat().st_size)
        for name in ("arm.py", "cuda_kernels.py", "guard.py", "layout.py", "check.py")
    )


def _folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(given) if given.startswith("/") else Path.home() / ".cache"
    except RuntimeError:  # no home
        root = Path(tempfile.gettempdir()) / f"oomph-{os.getuid()}"
    return root / "oomph"


def _remembered(memory: Path) -> bool:
    try:
        found = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("works") is True


def _remember(memory: Path, library: Path) -> None:
    with suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        part = memory.with_name(f"{memory.name}.{os.getpid()}")
        part.write_text(json.dumps({"works": True, "torch": str(library.parent)}), encoding="utf-8")
        part.replace(memory)


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = f"signal {-done.returncode}"
        return f"a small training step on a simulated GPU crashed ({name})"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return f"a small training step on a simulated GPU failed ({lines[-1].strip() if lines else 'no message'})"


def main() -> None:
    """The process that tries it: a step with autocast, autograd and an optimizer on fake CUDA tensors."""
    from oomph.tracing.device.arm import arm, hide_gpus

    try:
        import torch
    except ImportError as error:
        _refuse(f"Cannot trace: the installed torch cannot be imported ({error}).")
    hide_gpus()
    try:
        arm()
    except OomphError as error:
        _refuse(str(error))
    step(torch)
    # Autograd's thread for the device may still give back Python objects while Python ends, which aborts the process
    # once in thirty times ("terminate called without an active exception"): nothing is left to be torn down.
    os._exit(0)


def _refuse(sentence: str) -> NoReturn:
    sys.stdout.write(sentence + "\n")
    raise SystemExit(_REFUSED)


def step(torch: Any) -> None:
    """One training step on fake CUDA tensors, and one on the CPU, which must work as before."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from oomph.hardware.gpus import Gpu
    from oomph.tracing.device import answers
    from oomph.tracing.kernels.rule import RuleSet
    from oomph.tracing.patching import Patches
    from oomph.tracing.recorder.recorder import Recorder
    from oomph.tracing.settings import TraceSettings

    gpu = Gpu("NVIDIA A100-SXM4-40GB", (8, 0), 108, 2048, 40 << 30)
    with Patches() as patches:
        answers.install(Recorder(TraceSettings(gpu, (2, 13)), patches, RuleSet()))
        with FakeTensorMode():
            _step_on_gpu(torch)
        assert torch.ones(3).pin_memory().tolist() == [1.0, 1.0, 1.0]
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def _step_on_gpu(torch: Any) -> None:
    layers = [torch.nn.Linear(8, size, device="cuda") for size in (8, 1)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    with torch.autocast("cuda", torch.bfloat16):
        result = model(torch.ones(4, 8, device="cuda"))
    assert result.dtype == torch.bfloat16
    result.float().sum().backward()
    gradient = model[0].weight.grad
    assert gradient is not None
    assert gradient.device.type == "cuda"
    optimizer.step()


if __name__ == "__main__":
    main()
