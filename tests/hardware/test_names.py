"""GPUs and machines by the names that people give them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.errors import UsageError
from oomph.hardware.names import asked, gpu, machine, machine_type
from oomph.hardware.tables import all_gpus, all_machines

FACTS = Path(os.environ.get("OOMPH_CONFORMANCE") or Path(__file__).parents[3] / "shared") / "facts"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a100-40gb", "NVIDIA A100-SXM4-40GB"),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("a100 80 GB", "NVIDIA A100-SXM4-80GB"),
        ("A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
        ("h100", "NVIDIA H100 80GB HBM3"),
        ("H100_80G", "NVIDIA H100 80GB HBM3"),
        ("H100-96GB", "NVIDIA H100 96GB"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("RTX-4090", "NVIDIA GeForce RTX 4090"),
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("rtx4090", "NVIDIA GeForce RTX 4090"),
        ("GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("RTX 4090 24GB", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 4080 SUPER", "NVIDIA GeForce RTX 4080 SUPER"),
        ("rtx 2080 super", "NVIDIA GeForce RTX 2080 SUPER"),
        ("2080 Ti", "NVIDIA GeForce RTX 2080 Ti"),
        ("l4", "NVIDIA L4"),
        ("L40s", "NVIDIA L40S"),
        ("t4", "Tesla T4"),
        ("v100-32gb", "Tesla V100-SXM2-32GB"),
        ("Tesla V100-SXM3-32GB", "Tesla V100-SXM2-32GB"),
        ("A6000", "NVIDIA RTX A6000"),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        ),
        ("mi300x", "AMD Instinct MI300X"),
        ("  gb200 ", "NVIDIA GB200"),
        ("p4de.24xlarge", "NVIDIA A100-SXM4-80GB"),
        ("A100 (40 GB SXM)", "NVIDIA A100-SXM4-40GB"),
        ("A100-80GB-PCIe", "NVIDIA A100 80GB PCIe"),
        ("80gb a100", "NVIDIA A100-SXM4-80GB"),
        ("H200-141GB", "NVIDIA H200"),
        ("GH200-96GB", "NVIDIA GH200 480GB"),
        ("H100 NVL", "NVIDIA H100 NVL"),
        ("H20", "NVIDIA H20"),
        ("GTX 1080 Ti", "NVIDIA GeForce GTX 1080 Ti"),
        ("RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 Laptop GPU"),
        ("MI250", "AMD Instinct MI250"),
        ("dgx h100", "NVIDIA H100 80GB HBM3"),
        ("BM.GPU4.8", "NVIDIA A100-SXM4-40GB"),
    ],
)
def test_a_gpu_as_people_write_it(written, name) -> None:
    assert gpu(written).name == name


@pytest.mark.parametrize(
    ("written", "name", "count"),
    [
        ("a2-highgpu-8g", "NVIDIA A100-SXM4-40GB", 8),
        ("A2-ULTRAGPU-1G", "NVIDIA A100-SXM4-80GB", 1),
        ("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8),
        ("ml.p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8),
        ("g5.xlarge", "NVIDIA A10G", 1),
        ("Standard_ND96asr_v4", "NVIDIA A100-SXM4-40GB", 8),
        ("nd96isr_h100_v5", "NVIDIA H100 80GB HBM3", 8),
        ("gpu_8x_a100_80gb_sxm4", "NVIDIA A100-SXM4-80GB", 8),
        ("n1 + nvidia-tesla-t4 x4", "Tesla T4", 4),
    ],
)
def test_a_cloud_machine(written, name, count) -> None:
    found, number = machine(written)
    assert (found.name, number) == (name, count)


@pytest.mark.parametrize(
    ("written", "name", "count", "machine"),
    [
        ("a100-40gb", "a100-40gb", None, None),
        ("8xH100", "h100", 8, None),
        ("8x A100-80GB", "a100-80gb", 8, None),
        ("4 h200", "h200", 4, None),
        ("a100-80gb x16", "a100-80gb", 16, None),
        ("A100-SXM4-80GB:8", "a100-80gb", 8, None),
        ("rtx4090x2", "rtx-4090", 2, None),
        ("mi300x", "mi300x", None, None),
        ("MI300X x8", "mi300x", 8, None),
        ("3090 ti", "rtx-3090-ti", None, None),
        ("p4d.24xlarge", "a100-40gb", 8, "p4d.24xlarge"),
        ("2x p4d.24xlarge", "a100-40gb", 16, "p4d.24xlarge"),
        ("n1 + nvidia-tesla-t4 x4", "t4", 4, "n1 + nvidia-tesla-t4 x4"),
    ],
)
def test_a_name_may_say_how_many(written, name, count, machine) -> None:
    found = asked(written)
    assert found.gpu.short_name == name
    assert found.count == count
    assert (found.machine.name if found.machine else None) == machine


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("0x h100", "0x h100: a job runs on one GPU at least."),
        ("8xA100", "a100 can be a100-40gb or a100-80gb: say which."),
        ("a100-60gb x8", "a100 is known with 40 GB or 80 GB, not with 60: say a100-40gb or a100-80gb."),
        ("potato x8", "No GPU is known by the name potato x8."),
        ("x8", "No GPU is known by the name x8."),
    ],
)
def test_a_count_of_what_is_not_known_is_refused(written, sentence) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(sentence)}"):
        asked(written)


@pytest.mark.parametrize(
    ("written", "host_gib", "network_gbps", "vcpus"),
    [
        ("a2-highgpu-8g", 680, 100, 96),
        ("p5.48xlarge", 2048, 3200, 192),
        ("Standard_ND96asr_v4", 900, 1600, 96),
    ],
)
def test_what_a_machine_has_beside_its_gpus(written, host_gib, network_gbps, vcpus) -> None:
    found = machine_type(written)
    assert found.host_bytes == host_gib * 2**30
    assert found.network_bytes == network_gbps * 10**9 // 8
    assert found.vcpus == vcpus


def test_what_is_not_known_of_a_machine_is_none() -> None:
    assert machine_type("hgx-h100").host_bytes is None
    assert machine_type("hgx-h100").network_bytes is None
    with pytest.raises(UsageError, match="No cloud machine is known"):
        machine_type("h100")


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("a100", "a100 can be a100-40gb or a100-80gb: say which."),
        ("V100", "V100 can be v100-16gb or v100-32gb: say which."),
        ("RTX 6000", "RTX 6000 can be quadro-rtx-6000, rtx-6000-ada or rtx-pro-6000: say which."),
        (
            "NVIDIA GeForce RTX 3080",
            "NVIDIA GeForce RTX 3080 can be rtx-3080-10gb or rtx-3080-12gb: say which.",
        ),
        ("a100-60gb", "a100 is known with 40 GB or 80 GB, not with 60: say a100-40gb or a100-80gb."),
        ("4090 48GB", "4090 is known with 24 GB, not with 48: say rtx-4090."),
        ("rtx 5000", "rtx 5000 can be quadro-rtx-5000 or rtx-5000-ada: say which."),
        ("a100 sxm 60 GB", "a100 sxm is known with 40 GB or 80 GB, not with 60: say a100-40gb or a100-80gb."),
        ("dgx-a100", "No GPU is known by the name dgx-a100. Did you mean dgx-a100-320gb or dgx-a100-640gb?"),
        ("h10", "No GPU is known by the name h10. Did you mean h100?"),
        ("mi300", "No GPU is known by the name mi300. Did you mean mi300x, mi300a or mi350x?"),
    ],
)
def test_what_is_not_one_gpu_is_refused_with_what_to_say(written, sentence) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(sentence)}$"):
        gpu(written)


@pytest.mark.parametrize("written", ["", "nvidia", "x" * 100_000, "\x1b[31m", "é", "potato"])
def test_nonsense_gets_an_example(written) -> None:
    with pytest.raises(UsageError) as caught:
        gpu(written)
    assert "Names look like a100-80gb" in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_a_mistyped_machine_gets_the_ones_that_are_alike() -> None:
    with pytest.raises(UsageError, match=r"No cloud machine is known .* p4d\.24xlarge"):
        machine("p4d.24xlrge")
    with pytest.raises(UsageError, match=r"Did you mean .*p4d\.24xlarge"):
        gpu("p4d.24xlrge")


def test_a_part_of_a_gpu_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has a part of one NVIDIA L4 \(2861 MiB\)"):
        machine("g6f.large")


def test_every_name_in_the_tables_is_found_or_says_which() -> None:
    """A name leads to its GPU, or to a sentence that names it among those with the same name."""
    for each in all_gpus():
        assert gpu(each.short_name) is each
        for name in (each.name, *each.aliases):
            assert finds(name, each), name


def finds(name, wanted) -> bool:
    try:
        return gpu(name) is wanted
    except UsageError as error:
        return "say which" in str(error) and wanted.short_name in str(error)


def test_every_machine_of_the_table_has_a_known_gpu() -> None:
    for each in all_machines():
        if each.count:
            found, count = machine(each.name)
            assert (found, count) == (gpu(each.gpu), each.count)
            assert 1 <= count <= 16
        else:
            assert each.slice_mib > 0
            with pytest.raises(UsageError, match="a part of one"):
                machine(each.name)


@given(st.text(max_size=30))
def test_no_name_raises_anything_else(name) -> None:
    for find in (gpu, machine, asked, machine_type):
        try:
            find(name)
        except UsageError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either outcome is right


@given(st.sampled_from([each.short_name for each in all_gpus()]), st.sampled_from(["-", "_", " ", "", "--"]))
def test_case_and_separators_do_not_matter(name, separator) -> None:
    assert gpu(name.replace("-", separator).upper()) is gpu(name)


def facts(name):
    """A table of facts that stands beside the repository; None where it is not there."""
    path = FACTS / name
    return json.loads(path.read_text()) if path.is_file() else None


#: Rows of the facts that stand for several GPUs, or for one with several names.
SEVERAL = {
    "GeForce RTX 2080 / SUPER": ("GeForce RTX 2080", "GeForce RTX 2080 SUPER"),
    "GeForce RTX 3070 / 3070 Ti": ("GeForce RTX 3070", "GeForce RTX 3070 Ti"),
    "GeForce RTX 4070 / SUPER": ("GeForce RTX 4070", "GeForce RTX 4070 SUPER"),
    "GeForce RTX 4080 / SUPER": ("GeForce RTX 4080", "GeForce RTX 4080 SUPER"),
    "NVIDIA GH200 480GB / 120GB (96GB HBM3)": ("NVIDIA GH200 480GB", "NVIDIA GH200 120GB"),
    "NVIDIA RTX PRO 6000 Blackwell (WS/Server/Max-Q)": (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    ),
}


def test_every_name_that_the_facts_list_is_found() -> None:
    table = facts("gpus.json") or {"gpus": []}
    for row in table["gpus"]:
        for name in (*SEVERAL.get(row["name"], (row["name"],)), *row["name_patterns"]):
            found = gpu(name)
            capability = row["compute_capability"].replace(".", "")
            assert found.target.removeprefix("sm_") == capability, name
            assert found.memory_gb == row["marketing_memory_gb"], name


def test_every_machine_of_the_facts_has_its_gpu() -> None:
    table = facts("clouds.json") or {}
    rows = [row for name in ("gcp", "aws", "azure", "other") for row in table.get(name, ())]
    known = {each.name: each for each in all_machines()}
    assert {row["machine"] for row in rows} <= set(known)
    for row in rows:
        if known[row["machine"]].count == 0:
            assert row["gpu_count"] == 0 or "1/6" in row["gpu"]
            continue
        found, count = machine(row["machine"])
        assert count == row["gpu_count"]
        model = re.split(r"[- ]", row["gpu"].removeprefix("RTX PRO "))[0]
        assert model in found.name
        size = re.search(r"(\d+)GB", row["gpu"])
        # 192 and 180, 96 and 94: what is sold and what is there differ by the base of a GB.
        assert size is None or abs(int(size[1]) - found.memory_gb) <= 2
        stated = row.get("ec2_gpu_memory_mib", 0) / 1024
        assert not stated or stated * 0.9 < found.total_bytes / 2**30 < stated * 1.02


def test_what_the_facts_say_of_a_machine_is_in_the_table() -> None:
    table = facts("clouds.json") or {}
    for row in (row for name in ("gcp", "aws", "azure", "other") for row in table.get(name, ())):
        found = machine_type(row["machine"])
        assert found.vcpus == row["vcpu"]
        assert found.host_gib == row.get("host_ram_gib", row.get("host_ram_gb"))
        assert found.network_gbps == (row.get("max_net_gbps", row.get("net_gbps")) or found.network_gbps)
        if "general knowledge, not re-checked" in row["sources"]:
            assert {"vcpus", "host"} <= set(found.unchecked)


def test_every_gpu_of_the_published_points_is_known() -> None:
    """Against the points beside the repository, where they are there."""
    folder = FACTS.parent / "points"
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    for name in {json.loads(line)["gpu"] for line in lines} - {"unspecified"}:
        size = re.search(r"(\d+)GB", name)
        assert size is None or gpu(name).memory_gb == int(size[1])
        assert gpu(name).short_name
