"""What cudaMallocAsync ignores: a warning's text in libc10_cuda.so names three options."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env412_alloc_conf_ignored import AllocConfIgnored
from tests.diagnose.machine.built import (
    WARNING,
    cards,
    clear,
    environment,
    not_here,
    problem,
    told,
    torch,
    untold,
    variables,
)

EXPANDABLE = variables(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True,max_split_size_mb:256")


def test_the_other_backend() -> None:
    conf = "backend:cudaMallocAsync,max_split_size_mb:128,roundup_power2_divisions:[256:1,>:4]"
    found = problem(AllocConfIgnored, environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF=conf)))
    assert found.severity is WARNING
    assert "max_split_size_mb, roundup_power2_divisions" in found.says
    clear(
        AllocConfIgnored, environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"))
    )


def test_platforms_without_expandable_segments() -> None:
    found = problem(AllocConfIgnored, environment(variables=EXPANDABLE, wsl=told(True)))
    assert "WSL2" in found.says
    assert found.paste == "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:256"
    problem(AllocConfIgnored, environment(variables=EXPANDABLE, system=told("Microsoft Windows 11 Pro")))
    problem(AllocConfIgnored, environment(variables=EXPANDABLE, cards=cards("Orin (nvgpu)")))
    clear(AllocConfIgnored, environment(variables=EXPANDABLE, wsl=told(False), system=told("Ubuntu 22.04")))
    off = variables(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:False")
    clear(AllocConfIgnored, environment(variables=off, wsl=told(True)))


def test_options_that_need_another() -> None:
    alone = variables(PYTORCH_CUDA_ALLOC_CONF="pinned_num_register_threads:8")
    assert "pinned_use_cuda_host_register" in problem(AllocConfIgnored, environment(variables=alone)).says
    both = variables(
        PYTORCH_CUDA_ALLOC_CONF="pinned_use_cuda_host_register:True,pinned_num_register_threads:8"
    )
    clear(AllocConfIgnored, environment(variables=both))


def test_the_new_name_in_an_old_pytorch() -> None:
    conf = variables(PYTORCH_ALLOC_CONF="expandable_segments:True")
    found = problem(AllocConfIgnored, environment(variables=conf, torch=torch("2.5.1")))
    assert found.paste == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    clear(AllocConfIgnored, environment(variables=conf, torch=torch("2.9.0")))
    clear(AllocConfIgnored, environment(variables=conf))


def test_others() -> None:
    assert not_here(AllocConfIgnored, environment())
    assert not_here(AllocConfIgnored, environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF="refused=1")))
    untold(AllocConfIgnored, environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF=None)))
