"""What is published of the speed of GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.hardware.costs import costs_of, link_bytes, source_of
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu
from oomph.hardware.tables import all_gpus

FACTS = Path(os.environ.get("OOMPH_CONFORMANCE") or Path(__file__).parents[3] / "shared") / "facts"
GB = 10**9


@pytest.mark.parametrize(
    ("name", "fp32", "bf16", "fp8", "memory_gb_s", "nvlink_gb_s", "host_gb_s"),
    [
        ("a100-80gb", 19.5, 312, None, 2039, 600, 32),
        ("h100", 67, 989, 1979, 3350, 900, 64),
        ("h100-96gb", 67, 989, 1979, 2400, 900, 64),
        ("v100-32gb", 15.7, None, None, 900, 300, 16),
        ("t4", 8.1, None, None, 320, None, 16),
        ("b200", 75, 2250, 4500, 8000, 1800, 64),
        ("mi300x", 163.4, 1307, 2614, 5300, None, 64),
    ],
)
def test_data_sheets(name, fp32, bf16, fp8, memory_gb_s, nvlink_gb_s, host_gb_s) -> None:
    found = gpu(name)
    assert (found.tflops("fp32"), found.tflops("bf16"), found.tflops("fp8")) == (fp32, bf16, fp8)
    assert found.bandwidth_bytes == memory_gb_s * GB
    # What is sold as NVLink's bandwidth counts both directions.
    assert found.costs.nvlink_bytes == (None if nvlink_gb_s is None else nvlink_gb_s * GB // 2)
    assert found.costs.host_link_bytes == host_gb_s * GB


def test_every_gpu_has_a_row_of_its_own() -> None:
    for each in all_gpus():
        costs = each.costs
        assert costs.gpu == each.short_name
        assert set(costs.tflops) <= {"fp32", "tf32", "fp16", "bf16", "fp8"}
        assert set(costs.looked_up) <= {*costs.tflops, "memory", "nvlink", "host"}
        assert bool(costs.nvlink) == bool(costs.nvlink_gb_s)
        assert all(value > 0 for value in costs.tflops.values())


def test_what_a_gpu_has_no_units_for_is_not_known_as_fast() -> None:
    for each in all_gpus():
        if each.is_cuda:
            assert (each.tflops("bf16") is None) or each.capability >= (8, 0)
            assert (each.tflops("fp8") is None) or each.capability >= (8, 9)
            assert (each.tflops("tf32") is None) or each.capability >= (8, 0)
    assert gpu("h100").tflops("int4") is None


def test_lower_precision_is_never_slower() -> None:
    for each in all_gpus():
        known = [each.tflops(dtype) for dtype in ("fp32", "tf32", "bf16", "fp8")]
        values = [value for value in known if value is not None]
        assert values == sorted(values), each.name


def test_a_bridge_joins_two_gpus_and_a_switch_all() -> None:
    sxm, pcie = gpu("a100-80gb").costs, gpu("a100-80gb-pcie").costs
    assert link_bytes(sxm, 8) == 300 * GB
    assert link_bytes(pcie, 2) == 300 * GB
    assert link_bytes(pcie, 4) == 32 * GB
    assert link_bytes(gpu("l4").costs, 8) == 32 * GB


def test_of_an_unknown_gpu_nothing_is_known() -> None:
    made = Gpu("Mine", (8, 0), 108, 2048, 1 << 35)
    assert (made.tflops("bf16"), made.bandwidth_bytes) == (None, None)
    assert (made.costs.nvlink_bytes, link_bytes(made.costs, 2)) == (None, None)
    assert costs_of("nothing").host_link_bytes is None


def test_a_number_says_how_sure_it_is() -> None:
    assert "torchtitan" in source_of(gpu("h100").costs, "bf16")
    assert "not looked up" in source_of(gpu("rtx-5090").costs, "bf16")
    assert "not looked up" in source_of(gpu("h100").costs, "host")


def test_the_numbers_are_those_of_the_facts() -> None:
    """What was seen in a source, against the table beside the repository, where it is there."""
    path = FACTS / "gpus.json"
    rows = json.loads(path.read_text())["gpus"] if path.is_file() else []
    named = {name: each for each in all_gpus() for name in (each.name, *each.aliases)}
    checked = 0
    for row in rows:
        found = named.get(row["name"])
        if found is None or not row["dense_bf16_tflops"]:
            continue
        bf16 = found.tflops("bf16")
        assert bf16 is not None, row["name"]
        # The facts cut some of the data sheets' decimals.
        assert abs(bf16 - row["dense_bf16_tflops"]) <= 1, row["name"]
        if row["kind"] == "datacenter" and found.bandwidth_bytes:
            assert abs(found.bandwidth_bytes / (row["mem_bandwidth_tb_s"] * 1e12) - 1) < 0.03, row["name"]
        checked += 1
    assert not rows or checked > 40


def test_the_table_is_read_when_it_is_asked_for() -> None:
    code = (
        "from oomph.hardware.names import gpu; import sys; g = gpu('h100'); "
        "assert 'oomph.hardware.costs' not in sys.modules; assert g.tflops('bf16') == 989; "
        "assert not {'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
