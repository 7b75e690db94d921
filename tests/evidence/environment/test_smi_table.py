"""nvidia-smi's table, as drivers 440 to 580 draw it."""

from __future__ import annotations

import pytest

from tests.evidence.environment.texts import given, mib

OLD = """
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 450.80.02    Driver Version: 450.80.02    CUDA Version: 11.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:1A:00.0 Off |                   12 |
| N/A   45C    P0    65W / 300W |  10101MiB / 32510MiB |     35%   E. Process |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-SXM2...  Off  | 00000000:1B:00.0  On |                  Off |
| N/A   44C    P0    63W / 300W |      3MiB / 32510MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0   N/A  N/A     18011      C   python3                         10087MiB |
|    0   N/A  N/A      2001    C+G   ...ble-features --no-sandbox        3MiB |
+-----------------------------------------------------------------------------+
"""

NEW = """
Thu Nov  6 11:02:45 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                   On |
| N/A   33C    P0             70W /  700W |      39MiB /  81559MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              19MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |
|                  |                 0MiB / 65535MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""


def test_an_older_driver(tmp_path) -> None:
    told = given(tmp_path, OLD)
    assert (told.driver.value, told.driver_cuda.value) == ("450.80.02", "11.0")
    first, second = told.cards
    assert (first.index, first.name, first.bus_id) == (0, "Tesla V100-SXM2...", "00000000:1A:00.0")
    assert (first.used_bytes, first.total_bytes) == (mib(10101), mib(32510))
    assert (first.persistence, first.ecc, first.ecc_uncorrected) == (True, True, 12)
    assert (first.compute_mode, first.utilization, first.mig) == ("Exclusive_Process", 35, None)
    assert [(one.pid, one.used_bytes, one.kind) for one in first.processes] == [
        (18011, mib(10087), "C"),
        (2001, mib(3), "C+G"),
    ]
    assert (second.persistence, second.ecc, second.display_active) == (False, False, True)
    assert second.processes == ()
    assert second.hidden == ""


def test_mig_and_no_processes(tmp_path) -> None:
    told = given(tmp_path, NEW)
    card = told.cards[0]
    assert (card.mig, card.persistence, card.processes, card.hidden) == (True, True, (), "")
    assert [one.total_bytes for one in card.mig_devices] == [mib(40448)]
    assert (card.name, card.used_bytes) == ("NVIDIA H100 80GB HBM3", mib(39))


def test_a_list_without_rows_and_without_a_word_proves_nothing(tmp_path) -> None:
    text = NEW.replace("|  No running processes found" + 61 * " " + "|\n", "")
    assert "No running" not in text
    card = given(tmp_path, text).cards[0]
    assert card.processes == ()
    assert "container" in card.hidden


def test_a_table_that_ends_before_its_processes_tells_none(tmp_path) -> None:
    assert given(tmp_path, OLD[: OLD.index("| Processes")]).cards[0].processes is None


def test_windows(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        | NVIDIA-SMI 551.61                 Driver Version: 551.61         CUDA Version: 12.4     |
        |-----------------------------------------+------------------------+----------------------+
        | GPU  Name                     TCC/WDDM  | Bus-Id          Disp.A | Volatile Uncorr. ECC |
        |=========================================+========================+======================|
        |   0  NVIDIA GeForce RTX 4090      WDDM  |   00000000:01:00.0  On |                  Off |
        |  0%   47C    P8             15W /  450W |    1712MiB /  24564MiB |      4%      Default |
        |                                         |                        |                  N/A |
        +-----------------------------------------+------------------------+----------------------+

        | Processes:                                                                              |
        |=========================================================================================|
        |    0   N/A  N/A      4332    C+G   C:\\Windows\\explorer.exe                     N/A      |
        +-----------------------------------------------------------------------------------------+
        """,
    )
    card = told.cards[0]
    assert (card.driver_model, card.persistence) == ("WDDM", None)
    assert [(one.pid, one.used_bytes) for one in card.processes] == [(4332, None)]


def test_a_loop_tells_the_last_moment(tmp_path) -> None:
    later = OLD.replace("10101MiB", "22222MiB")
    assert given(tmp_path, OLD + later).cards[0].used_bytes == mib(22222)
    assert len(given(tmp_path, OLD + later).cards) == 2


def test_the_list_of_gpus_completes_the_table(tmp_path) -> None:
    told = given(
        tmp_path,
        NEW + "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a0a0a0a-1111-2222-3333-444444444444)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-99999999-1111-2222-3333-444444444444)\n",
    )
    card = told.cards[0]
    assert len(told.cards) == 1
    assert card.uuid == "GPU-0a0a0a0a-1111-2222-3333-444444444444"
    device = card.mig_devices[0]
    assert (device.profile, device.total_bytes) == ("3g.40gb", mib(40448))
    assert device.uuid == "MIG-99999999-1111-2222-3333-444444444444"


def test_csv(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        index, name, uuid, driver_version, memory.total [MiB], memory.used [MiB], compute_cap, mig.mode.current
        0, NVIDIA A10, GPU-00000000-0000-0000-0000-000000000001, 550.54.15, 23028 MiB, 512 MiB, 8.6, [N/A]
        1, NVIDIA A10, GPU-00000000-0000-0000-0000-000000000002, 550.54.15, 23028 MiB, 0 MiB, 8.6, [N/A]
        gpu_uuid, pid, process_name, used_gpu_memory [MiB]
        GPU-00000000-0000-0000-0000-000000000001, 7781, /usr/bin/python3.10, 498 MiB
        """,
    )
    first, second = told.cards
    assert (first.index, first.capability, first.total_bytes, first.used_bytes) == (
        0,
        (8, 6),
        mib(23028),
        mib(512),
    )
    assert told.driver.value == "550.54.15"
    assert [(one.pid, one.used_bytes) for one in first.processes] == [(7781, mib(498))]
    assert second.processes is None


def test_csv_without_header_and_units_is_known_by_its_command(tmp_path) -> None:
    told = given(
        tmp_path,
        """
        $ nvidia-smi --query-gpu=memory.total,memory.free,name --format=csv,noheader,nounits
        23028, 22515, NVIDIA A10
        23028, 23028, NVIDIA A10
        """,
    )
    assert [(one.index, one.total_bytes, one.free_bytes) for one in told.cards] == [
        (0, mib(23028), mib(22515)),
        (1, mib(23028), mib(23028)),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Unable to determine the device handle for GPU 0000:86:00.0: Unknown Error",
        "Failed to initialize NVML: Unknown Error",
    ],
)
def test_what_nvidia_smi_says_instead(tmp_path, text: str) -> None:
    told = given(tmp_path, f"$ nvidia-smi\n{text}\n")
    assert [one.text for one in told.errors] == [text]
    assert told.errors[0].line == 2


def test_no_devices_is_a_list_that_is_empty(tmp_path) -> None:
    told = given(tmp_path, "No devices were found\n")
    assert told.tells("cards")
    assert told.cards == ()


def test_a_mismatch_names_the_library(tmp_path) -> None:
    told = given(
        tmp_path,
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.107\n",
    )
    assert [one.value for one in told.driver_libraries] == ["550.107"]
    assert told.drivers == ()
