import pytest

from oomph.evidence.tables import parse_gpus
from tests.evidence.tables.text import document, listed, processes, readings, used_total

OLD = """\
Tue Oct 23 17:29:12 2018
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 390.48                 Driver Version: 390.48                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 108...  Off  | 00000000:01:00.0  On |                  N/A |
| 27%   29C    P8    11W / 180W |    509MiB /  8113MiB |     17%      Default |
+-------------------------------+----------------------+----------------------+
|   1  GeForce GTX 1080    Off  | 0000:82:00.0     Off |                  N/A |
| 52%   78C    P2   174W / 180W |    623MiB /  8114MiB |     99%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      1637      G   /usr/lib/xorg/Xorg                           257MiB |
|    1      7860    C   /root/train --name=a b                        621MiB |
+-----------------------------------------------------------------------------+
"""

NEW = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA RTX A6000               On  |   00000000:25:00.0 Off |                    0 |
| N/A   71C    P0            288W /  300W |   48245MiB /  49140MiB |    100%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A           22041      C   python                                18851MiB |
|    0   N/A  N/A           30550    C+G   /opt/venv/bin/python                  29390MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_the_old_layout():
    found = readings(OLD)
    assert [(one.gpu, one.name) for one in found] == [(0, "GeForce GTX 108..."), (1, "GeForce GTX 1080")]
    assert used_total(OLD) == [(0, 509, 8113), (1, 623, 8114)]
    assert {(one.driver, one.cuda) for one in found} == {("390.48", None)}
    # 2018-10-23 17:29:12 UTC
    assert found[0].time == 1540315752.0
    assert found[0].quote.text.startswith("| 27%   29C")
    assert listed(OLD) == [(0, 1637, "/usr/lib/xorg/Xorg", 257), (1, 7860, "/root/train --name=a b", 621)]


def test_the_new_layout():
    (one,) = readings(NEW)
    assert (one.name, one.driver, one.cuda, one.free) == ("NVIDIA RTX A6000", "550.90.07", "12.4", None)
    assert used_total(NEW) == [(0, 48245, 49140)]
    assert listed(NEW) == [(0, 22041, "python", 18851), (0, 30550, "/opt/venv/bin/python", 29390)]
    assert processes(NEW)[0].quote.line == 18


def test_the_header_of_driver_610():
    text = NEW.replace(
        "| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |",
        "| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |",
    )
    (one,) = readings(text)
    assert (one.driver, one.cuda) == ("610.43.02", "13.3")


def test_a_loop_gives_one_reading_per_table_and_each_process_once():
    later = NEW.replace("48245MiB", "48300MiB").replace("18851MiB", "18906MiB")
    text = "Tue Mar  4 09:10:00 2025\n" + NEW + "Tue Mar  4 09:10:30 2025\n" + later
    assert used_total(text) == [(0, 48245, 49140), (0, 48300, 49140)]
    first, second = readings(text)
    assert first.time is not None
    assert second.time == first.time + 30
    assert listed(text) == [(0, 22041, "python", 18906), (0, 30550, "/opt/venv/bin/python", 29390)]


def test_windows():
    text = """\
| NVIDIA-SMI 551.52                 Driver Version: 551.52         CUDA Version: 12.4     |
| GPU  Name                     TCC/WDDM  | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA GeForce RTX 3080 Ti   WDDM  |   00000000:01:00.0  On |                  N/A |
|  0%   54C    P5             50W /  350W |    7177MiB /  12288MiB |     22%      Default |
|                                         |                        |                  N/A |
| Processes:                                                                              |
|    0   N/A  N/A            5512    C+G   ...em32\\ApplicationFrameHost.exe      N/A      |
|    0   N/A  N/A            1556    C+G   Insufficient Permissions              N/A      |
|    0   N/A  N/A           29036      C   ...s\\Python\\Python311\\python.exe      N/A      |
"""
    assert used_total(text) == [(0, 7177, 12288)]
    assert readings(text)[0].name == "NVIDIA GeForce RTX 3080 Ti"
    assert listed(text) == [
        (0, 5512, "...em32\\ApplicationFrameHost.exe", None),
        (0, 1556, "Insufficient Permissions", None),
        (0, 29036, "...s\\Python\\Python311\\python.exe", None),
    ]


def test_unified_memory_has_no_numbers():
    text = """\
| NVIDIA-SMI 580.126.09             Driver Version: 580.126.09     CUDA Version: 13.0     |
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   39C    P8              4W /  N/A  | Not Supported          |      0%      Default |
|                                         |                        |                  N/A |
| Processes:                                                                              |
|    0   N/A  N/A            5459      C   python3                                2079MiB |
"""
    (one,) = readings(text)
    assert (one.name, one.used, one.total) == ("NVIDIA GB10", None, None)
    assert listed(text) == [(0, 5459, "python3", 2079)]


MIG = """\
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|   0  NVIDIA A100 80GB PCIe          On  |   00000000:E9:00.0 Off |                   On |
| N/A   39C    P0             74W /  300W |     792MiB /  81920MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|==================+==================================+===========+=======================|
|  0    9   0   0  |              12MiB /  9728MiB    | 14      0 |  1   0    0    0    0 |
|                  |                 0MiB / 16383MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0   11   0   1  |            9000MiB /  9728MiB    | 14      0 |  1   0    0    0    0 |
|                  |                 0MiB / 16383MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
| Processes:                                                                              |
|    0    9    0      22041      C   python                                     8851MiB |
"""


def test_mig_devices_are_named_so():
    assert used_total(MIG) == [(0, 792, 81920), (0, 12, 9728), (0, 9000, 9728)]
    assert [one.name for one in readings(MIG)] == [
        "NVIDIA A100 80GB PCIe",
        "NVIDIA A100 80GB PCIe MIG 0",
        "NVIDIA A100 80GB PCIe MIG 1",
    ]
    assert listed(MIG) == [(0, 22041, "python", 8851)]


def test_a_fragment_with_its_name_row():
    text = (
        "|   0  RTX A5000   On  | 00000000:17:00.0 Off |\n"
        "| 30%  31C  P8   7W / 230W | 3174MiB / 24564MiB | 0%  Default |"
    )
    assert used_total(text) == [(0, 3174, 24564)]


@pytest.mark.parametrize(
    "text",
    [
        "| 30%  31C  P8   7W / 230W | 3174MiB / 24564MiB | 0%  Default |",  # which GPU?
        "|  No running processes found                                                 |",
        "|   0  RTX A5000   On  | 00000000:17:00.0 Off |  Off |",
        "| step 3 | 3174MiB / 24564MiB |",
    ],
)
def test_what_is_not_enough(text):
    assert parse_gpus(document(text)) == ([], [])


def test_log_lines_between_the_two_rows():
    lines = NEW.split("\n")
    at = next(number for number, line in enumerate(lines) if "A6000" in line)
    noisy = [*lines[: at + 1], "[rank1] step 3 | loss 2.0 |", "", *lines[at + 1 :]]
    assert used_total("\n".join(noisy)) == [(0, 48245, 49140)]
