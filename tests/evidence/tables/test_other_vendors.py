"""rocm-smi, amd-smi, xpu-smi."""

from oomph.evidence.tables import parse_gpus
from tests.evidence.tables.text import MIB, document, processes, readings, used_total


def sizes(text):
    return [
        (one.gpu, one.used.bytes if one.used else None, one.total.bytes if one.total else None)
        for one in readings(text)
    ]


ROCM = """\
======================= ROCm System Management Interface =======================
============================= Memory Usage (Bytes) =============================
GPU[0]\t\t: VRAM Total Memory (B): 68702699520
GPU[0]\t\t: VRAM Total Used Memory (B): 25616384
GPU[1]\t\t: VRAM Total Memory (B): 68702699520
GPU[1]\t\t: VRAM Total Used Memory (B): 68000000000
================================================================================
"""


def test_rocm_smi():
    assert sizes(ROCM) == [(0, 25616384, 68702699520), (1, 68000000000, 68702699520)]
    assert readings(ROCM)[0].quote.line == 4


def test_rocm_smi_in_a_loop_with_names():
    names = "GPU[0]\t\t: Card Series: \t\tAMD Instinct MI250X\nGPU[0]\t\t: VIS_VRAM Total Memory (B): 1\n"
    text = names + ROCM + ROCM.replace("25616384", "25616385")
    assert sizes(text) == [
        (0, 25616384, 68702699520),
        (1, 68000000000, 68702699520),
        (0, 25616385, 68702699520),
        (1, 68000000000, 68702699520),
    ]
    assert readings(text)[0].name == "AMD Instinct MI250X"


def test_rocm_smi_json_and_csv():
    as_json = (
        '{"card0": {"VRAM Total Memory (B)": "17095983104", "VRAM Total Used Memory (B)": "59891712"}, '
        '"card1": {"VRAM Total Memory (B)": "17095983104", "VRAM Total Used Memory (B)": "7"}}'
    )
    assert sizes(as_json) == [(0, 59891712, 17095983104), (1, 7, 17095983104)]
    as_csv = "device,VRAM Total Memory (B),VRAM Total Used Memory (B)\ncard0,17095983104,59891712\n"
    assert sizes(as_csv) == [(0, 59891712, 17095983104)]


def test_rocm_smi_percentages_are_no_sizes():
    text = """\
GPU  Temp   AvgPwr  SCLK    MCLK     Fan     Perf  PwrCap  VRAM%  GPU%
0    38.0c  35.0W   800Mhz  1600Mhz  0%      auto  300.0W   97%   100%
"""
    assert parse_gpus(document(text)) == ([], [])


def test_rocm_smi_showpids():
    text = """\
KFD process information:
PID    \tPROCESS NAME   \tGPU(s)\tVRAM USED  \tSDMA USED\tCU OCCUPANCY\t
9399\tVLLM::EngineCor\t1     \t329576448  \t0        \tUNKNOWN\t
3458806 my train   8      1254109184 0         0
==========================================================================================
1234 not a process 1 2 3 4
"""
    found = processes(text)
    assert [(one.gpu, one.pid, one.name, one.used and one.used.bytes) for one in found] == [
        (-1, 9399, "VLLM::EngineCor", 329576448),
        (-1, 3458806, "my train", 1254109184),
    ]


def test_amd_smi_table():
    text = """\
| AMD-SMI 26.0.2+39589fda      amdgpu version: 6.14.14  ROCm version: 7.0.2    |
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:2d:00.0  AMD Radeon RX 9070 XT | 6 %      62 °C   0           189/266 W |
|   0       0     N/A             N/A | 100 %   29.8 %          11541/16304 MB |
|-------------------------------------+----------------------------------------|
| 0000:05:00.0 ...Instinct MI300X OAM | 0 %      38 °C   0           141/750 W |
|   1       1       7        SPX/NPS1 | 0 %        N/A           283/196592 MB |
"""
    assert used_total(text) == [(0, 11541, 16304), (1, 283, 196592)]
    assert [one.name for one in readings(text)] == ["AMD Radeon RX 9070 XT", "...Instinct MI300X OAM"]


def test_amd_smi_monitor():
    two = (
        "GPU  POWER  GPU_TEMP  MEM_TEMP  VRAM_USED  VRAM_TOTAL\n"
        "  0  248 W     55 °C     48 °C     283 MB   196300 MB\n"
    )
    assert used_total(two) == [(0, 283, 196300)]
    one = (
        "GPU  POWER   GPU_T   MEM_T   GFX_CLK   GFX%   MEM%   ENC%   DEC%      VRAM_USAGE\n"
        "  3  183 W   82 °C   84 °C  3036 MHz  100 %    5 %    N/A    0 %    23.5/ 24.0 GB\n"
    )
    assert sizes(one) == [(3, round(23.5 * 1024 * MIB), 24 * 1024 * MIB)]


def test_xpu_smi_dump():
    text = """\
Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Memory Used (MiB)
14:32:57.448,    0, 0.00, 106.60, 28.25
14:32:57.449,    1, N/A, 105.25, N/A
not, a, row, at, all
"""
    (one,) = readings(text)
    assert (one.gpu, one.used and one.used.bytes, one.total) == (0, round(28.25 * MIB), None)
    assert one.time == 14 * 3600 + 32 * 60 + 57.448


def test_xpu_smi_stats():
    text = """\
| Device ID                   | 2                                                                  |
| GPU Memory Used (MiB)       | 24                                                                 |
| GPU Memory Util (%)         | 0                                                                  |
"""
    assert sizes(text) == [(2, 24 * MIB, None)]
