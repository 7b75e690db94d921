"""Numbers of machine types: Google's page (a2-highgpu-1g: 12 vCPUs, 85 GB). The threshold is 90 %."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env303_less_ram_or_cores import LessRamOrCores
from oomph.units import GIB
from tests.diagnose.machine.built import WARNING, clear, environment, host, not_here, problem, told, untold

TYPE = told("a2-highgpu-1g")


def test_ram_on_both_sides_of_the_threshold() -> None:
    wanted = 85 * GIB
    below = environment(machine_type=TYPE, host=host(ram_bytes=int(0.89 * wanted)))
    found = problem(LessRamOrCores, below)
    assert found.severity is WARNING
    assert found.numbers["ram_of_the_type_bytes"] == wanted
    above = environment(machine_type=TYPE, host=host(ram_bytes=int(0.97 * wanted)))
    assert "82.45 GiB" in clear(LessRamOrCores, above)


def test_half_of_the_cores() -> None:
    found = problem(LessRamOrCores, environment(machine_type=TYPE, host=host(vcpus=6)))
    assert "12 vCPUs" in found.says
    assert "second thread" in found.says
    clear(LessRamOrCores, environment(machine_type=TYPE, host=host(vcpus=12)))


def test_numbers_that_were_not_looked_up_are_not_used() -> None:
    """gpu_1x_a10 of Lambda: vCPUs and RAM of the table are general knowledge."""
    made = environment(machine_type=told("gpu_1x_a10"), host=host(vcpus=4, ram_bytes=GIB))
    untold(LessRamOrCores, made)


def test_nothing_told() -> None:
    assert not_here(LessRamOrCores, environment(host=host(ram_bytes=GIB)))
    untold(LessRamOrCores, environment(machine_type=TYPE))
