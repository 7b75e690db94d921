from __future__ import annotations

from oomph.diagnose.machine.checks.env506_wsl2 import Wsl2
from oomph.job.model import Job, Optimizer
from oomph.units import GIB
from tests.diagnose.machine.built import NOTE, WARNING, clear, environment, host, not_here, problem, told


def test_wsl2() -> None:
    found = problem(Wsl2, environment(wsl=told(True), host=host(ram_bytes=16 * GIB)))
    assert found.severity is NOTE
    assert "16.00 GiB" in found.says
    assert ".wslconfig" in found.fix


def test_a_job_that_pins_memory_there() -> None:
    offloads = Job(optimizer=Optimizer(offload="cpu"))
    assert problem(Wsl2, environment(wsl=told(True)), job=offloads).severity is WARNING
    assert problem(Wsl2, environment(wsl=told(True)), job=Job()).severity is NOTE


def test_others() -> None:
    clear(Wsl2, environment(wsl=told(False)))
    assert not_here(Wsl2, environment())
