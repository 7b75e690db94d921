"""The numbers of the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu
from oomph.hardware.outside import available_bytes, context_bytes
from oomph.hardware.tables import all_gpus

FACTS = Path(os.environ.get("OOMPH_CONFORMANCE") or Path(__file__).parents[3] / "shared") / "facts"
MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("name", "capability", "multiprocessors", "threads", "low_mib", "high_mib"),
    [
        # 14.56 GiB are 14909.44 MiB; 15109 MiB is what an older driver shows.
        ("t4", (7, 5), 40, 1024, 14909, 15109),
        # 15.77 GiB are 16148.48 MiB, 16130 and 16160 were printed.
        ("v100-16gb", (7, 0), 80, 2048, 16130, 16160),
        # 39.38 GiB are 40325.12 MiB, 39.59 are 40540.16.
        ("a100-40gb", (8, 0), 108, 2048, 40325, 40540),
        # 79.15 GiB are 81049.6 MiB, 79.35 are 81254.4.
        ("a100-80gb", (8, 0), 108, 2048, 81049, 81254),
        # 79.10 GiB are 80998.4 MiB, 79.21 are 81111.04.
        ("h100", (9, 0), 132, 2048, 80998, 81111),
        # 139.80 GiB are 143155.2 MiB, 139.81 are 143165.44.
        ("h200", (9, 0), 132, 2048, 143155, 143165),
        # 23.49 GiB are 24053.76 MiB; 24563 is Windows.
        ("rtx-4090", (8, 9), 128, 1536, 24053, 24563),
        ("b200", (10, 0), 148, 2048, 182630, 182642),
        # 31.33 GiB are 32081.92 MiB, 31.84 are 32604.16.
        ("rtx-5090", (12, 0), 170, 1536, 32081, 32604),
    ],
)
def test_numbers_of_well_known_gpus(name, capability, multiprocessors, threads, low_mib, high_mib) -> None:
    found = gpu(name)
    assert found.capability == capability
    assert found.multiprocessors == multiprocessors
    assert found.threads_per_multiprocessor == threads
    assert (found.total_bytes, found.total_high_bytes) == (low_mib * MIB, high_mib * MIB)


def test_every_row_is_whole() -> None:
    for each in all_gpus():
        assert each.multiprocessors > 0
        assert each.threads_per_multiprocessor in (1024, 1536, 2048)
        assert each.kind in ("datacenter", "workstation", "consumer")
        assert each.aliases
        assert each.arch
        assert all(part in each.source for part in ("total memory: ", "multiprocessors: ", "threads: "))
        assert 0 <= each.total_bytes <= each.total_high_bytes
        # No GPU shows more than its name says in GiB, nor less than nine tenths of that in GB (ECC in its memory).
        assert each.total_bytes == 0 or 0.9 * each.memory_gb * 1e9 < each.total_bytes <= each.memory_gb * GIB
    assert len({each.name for each in all_gpus()}) == len(all_gpus())


def test_what_nvidia_smi_shows_is_no_less_than_what_cuda_shows() -> None:
    for each in all_gpus():
        if each.smi_total_mib:
            assert each.total_bytes <= max(each.smi_total_mib) * MIB, each.name


def test_a_total_that_nobody_printed_is_nvidia_smi_less_the_most_hidden() -> None:
    found = gpu("gh200-144gb")
    # 146831 MiB less 1.08 GiB, which are 1105.92 MiB.
    assert found.total_bytes == (146831 - 1106) * MIB
    assert "less 1.08 GiB" in found.source


def test_gpus_of_other_makers_are_no_cuda_devices() -> None:
    found = gpu("mi300x")
    assert (found.vendor, found.is_cuda, found.capability, found.target) == ("AMD", False, (0, 0), "gfx942")
    assert gpu("h100").is_cuda
    assert gpu("h100").target == "sm_90"
    assert {each.vendor for each in all_gpus()} == {"NVIDIA", "AMD"}


def test_the_context_leaves_an_interval_for_pytorch() -> None:
    low, high, source = context_bytes(gpu("a100-80gb"))
    # 273.75 MiB and 1.42 GiB, as reported.
    assert (low, high) == (287_047_680, int(Decimal("1.42") * GIB))
    assert "86509" in source
    left = available_bytes(gpu("a100-80gb"))
    assert left.low_bytes == 81049 * MIB - high
    assert left.high_bytes == 81254 * MIB - low
    assert low < 0.47 * GIB < high  # measured on an A100
    assert low < 426 * MIB < high  # measured on an RTX 6000 Ada


def test_what_is_not_known_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="AMD Instinct MI300X is a GPU of AMD"):
        context_bytes(gpu("mi300x"))
    with pytest.raises(UsageError, match="How much memory Mystery has is not known"):
        available_bytes(Gpu("Mystery", (9, 0), 1, 2048, 0))


def test_a_gpu_can_be_made_by_hand() -> None:
    made = Gpu("Mine", (8, 0), 108, 2048, 40 * GIB)
    assert made.short_name == "Mine"
    assert available_bytes(made).high_bytes == 40 * GIB - 287_047_680


def test_looking_a_gpu_up_needs_no_heavy_library() -> None:
    code = (
        "import sys; import oomph.hardware.names as n; from oomph.hardware.tables import all_gpus as a; "
        "assert a.cache_info().currsize == 0; n.gpu('h100'); n.machine('p5.48xlarge'); "
        "assert a.cache_info().currsize == 1; "
        "assert not {'numpy', 'torch', 'difflib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_numbers_are_those_of_the_facts() -> None:
    """Against the table beside the repository, where it is there."""
    path = FACTS / "gpus.json"
    rows = json.loads(path.read_text())["gpus"] if path.is_file() else []
    named = {name: each for each in all_gpus() for name in (each.name, *each.aliases)}
    checked = 0
    for row in rows:
        found = named.get(row["name"])
        if found is None:
            continue
        checked += 1
        assert found.smi_total_mib == tuple(row["nvidia_smi_total_mib"])
        assert found.memory_gb == row["marketing_memory_gb"]
        assert (found.vendor, found.kind, found.arch) == (row["vendor"], row["kind"], row["arch"])
        for total in row["pytorch_total_gib"]:
            assert found.total_bytes <= Decimal(str(total)) * GIB <= found.total_high_bytes + MIB
    assert not rows or checked > 60
