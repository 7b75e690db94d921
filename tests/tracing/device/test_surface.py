"""Every public name of torch.cuda answers or refuses by name, and everything is as before afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.tracing.programs import traced

ROOT = Path(__file__).parents[3]

PROGRAM = """
import json, warnings
warnings.simplefilter("ignore")
from oomph.tracing.errors import TraceRefused
size = torch.Size([2])
arguments = {
    "CudaError": (3,), "ExternalStream": (5,), "StreamContext": (None,), "caching_allocator_alloc": (100,),
    "caching_allocator_delete": (0,), "can_device_access_peer": (0, 0), "change_current_allocator": (None,),
    "CUDAPluggableAllocator": ("a.so", "f", "g"), "check_error": (0,), "device": (0,), "device_index": (0,),
    "device_of": (torch.ones(1),), "export_dot": ("x",), "export_graph_data": ("x",),
    "get_stream_from_external": (7,), "graph": (None,),
    "make_graphed_callables": (None, None), "manual_seed": (1,), "manual_seed_all": (1,), "mark": ("m",),
    "range": ("m",), "range_end": (1,), "range_push": ("m",), "range_start": ("m",), "set_device": (0,),
    "set_device_idx": (0,), "set_device_index": (0,), "set_per_process_memory_fraction": (0.5,),
    "set_rng_state": (torch.cuda.get_rng_state(),), "set_rng_state_all": ([],), "set_stream": (None,),
    "set_sync_debug_mode": (0,), "stream": (None,), "use_mem_pool": (torch.cuda.MemPool(),),
}
modules = [torch.cuda, torch.cuda.memory, torch.cuda.nvtx, torch.cuda.random, torch.cuda.profiler]
modules += [torch.accelerator, getattr(torch.accelerator, "memory", torch.accelerator)]
refused, failed, answered = set(), [], 0
for module in modules:
    for name in module.__all__:
        value = getattr(module, name)
        if not callable(value) or name.endswith("Storage"):
            continue
        try:
            value(*arguments.get(name, (size,) if name.endswith("Tensor") else ()))
            answered += 1
        except TraceRefused as error:
            assert name in str(error) or "torch._C._" in str(error), (name, str(error))
            refused.add(name)
        except Exception as error:
            failed.append(f"{module.__name__}.{name}: {type(error).__name__}: {error}")
print(json.dumps([sorted(refused), failed, answered]))
"""


def test_every_public_name_answers_or_refuses():
    refused, failed, answered = json.loads(traced(PROGRAM).printed)
    assert failed == []
    assert answered > 100
    # What a GPU is needed for: graphs, allocators of one's own, and the list of dtypes of a backend.
    assert set(refused) <= {
        "CUDAGraph",
        "CUDAPluggableAllocator",
        "Graph",
        "change_current_allocator",
        "get_device_capability",
        "graph",
        "graph_pool_handle",
        "make_graphed_callables",
    }
    assert {"CUDAGraph", "graph", "make_graphed_callables"} <= set(refused)


def test_what_torch_calls_and_has_no_answer_is_refused_by_name():
    said = traced(
        """
        from oomph.tracing.errors import TraceRefused
        for call in (
            lambda: torch._C._cuda_jiterator_compile_and_launch_kernel("code", "name", False, 1, (), {}),
            lambda: torch.cuda.nccl.unique_id(),
            lambda: torch.nn.parallel.comm.broadcast(torch.ones(2, device="cuda"), devices=[0, 0]),
            lambda: torch.cuda.caching_allocator_enable(False),
            lambda: torch.cuda.MemPool(object()),
        ):
            try:
                call()
            except TraceRefused as error:
                print(str(error).split(":")[0])
        """
    ).printed.splitlines()
    assert len(said) == 5
    assert "_cuda_jiterator_compile_and_launch_kernel" in said[0]
    assert "_nccl_unique_id" in said[1]
    assert "DataParallel" in said[2]
    assert "caching_allocator_enable" in said[3]
    assert "MemPool" in said[4]


ANSWERS = """
import torch
from oomph.hardware.gpus import Gpu
from oomph.tracing.device import answers
from oomph.tracing.kernels.rule import RuleSet
from oomph.tracing.patching import Patches
from oomph.tracing.recorder.recorder import Recorder
from oomph.tracing.settings import TraceSettings
"""


def alone(program: str) -> str:
    """Runs a program that installs the answers by itself, without the rest of a trace."""
    pytest.importorskip("torch", reason="tracing needs PyTorch")
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_several_devices_are_kept_apart():
    said = alone(
        """
        with Patches() as patches:
            gpu = Gpu("A", (8, 0), 108, 2048, 40 << 30)
            answers.install(Recorder(TraceSettings(gpu, (2, 13), device_count=2), patches, RuleSet()))
            cuda = torch.cuda
            print(cuda.device_count(), cuda.current_device(), len(cuda.get_rng_state_all()))
            with cuda.device(1):
                cuda.caching_allocator_alloc(1 << 20)
                print(cuda.current_device(), cuda.current_stream().device)
            print(cuda.memory_allocated(0), cuda.memory_allocated(1), cuda.memory_allocated("cuda:1"))
            side = cuda.Stream(device=1)
            with cuda.stream(side):
                print(cuda.current_device(), cuda.current_stream(1) == side, cuda.current_stream(0).cuda_stream)
            print(cuda.current_device(), cuda.current_stream(1).cuda_stream)
            cuda.set_device("cuda:1")
            print(cuda.current_device(), torch.accelerator.current_device_index(), cuda.can_device_access_peer(0, 1))
            print(torch.Generator("cuda").device, [s["device"] for s in cuda.memory_snapshot()])
        """
    ).splitlines()
    assert said == [
        "2 0 2",
        "1 cuda:1",
        f"0 {1 << 20} {1 << 20}",
        "1 True 0",
        "0 0",
        "1 1 True",
        "cuda:1 [1]",
    ]


def test_everything_is_put_back():
    said = alone("""
owners = [torch, torch._C, torch.cuda, torch.cuda.memory, torch.cuda.streams, torch.cuda.graphs, torch.cuda.nvtx,
          torch.backends.cudnn, torch.version, torch.Tensor, torch.autograd.profiler.profile]
owners += [torch.accelerator] if hasattr(torch, "accelerator") else []
before, built = [dict(vars(owner)) for owner in owners], torch.version.cuda
with Patches() as patches:
    settings = TraceSettings(Gpu("A", (8, 0), 108, 2048, 40 << 30), (2, 13))
    answers.install(Recorder(settings, patches, RuleSet()))
    assert torch.cuda.is_available()
    torch.cuda.current_stream()
    torch.cuda.manual_seed_all(1)
after = [dict(vars(owner)) for owner in owners]
for old, new in zip(before, after):  # an import of a submodule is no change
    for name in [name for name in new if name not in old and isinstance(new[name], type(torch))]:
        del new[name]
for owner, old, new in zip(owners, before, after):
    assert old.keys() == new.keys(), (owner, old.keys() ^ new.keys())
    changed = [name for name in old if old[name] is not new[name] and name != "__annotations__"]
    assert not changed, (owner, changed)
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda == built, torch.cuda.is_initialized())
""")
    assert said == "False 0 True False\n"
