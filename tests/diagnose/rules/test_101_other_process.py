"""OOM101: who else holds the card, and when it is nobody."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from oomph.units import format_bytes
from tests.diagnose.logs import (
    FORWARD,
    MODEL_TO,
    causes,
    diagnosed,
    failed,
    finding,
    gib,
    mib,
    old_oom,
    oom,
    ruled_out,
    top,
    traceback,
)

SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   34C    P0             64W /  400W |   {used}MiB /  81920MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|=========================================================================================|
|    0   N/A  N/A     {pid}      C   {name}                        {used}MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_a_named_stranger_that_holds_half_the_card() -> None:
    # 79.15 = 0.55 free + 41.20 stranger + 37.40 this process.
    message = oom(
        free="0.55 GiB",
        others=[(4242, "41.20 GiB")],
        process="37.40 GiB",
        allocated="36.10 GiB",
        cached="0.70 GiB",
    )
    diagnosis = failed(FORWARD, message)
    assert top(diagnosis) == "other_process"
    found = finding(diagnosis, "other_process")
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"other_processes_bytes": gib(41.20), "request_bytes": gib(2.00)}
    assert found.actions[0] == "stop-process"
    assert "4242" in found.says
    assert "would have fitted" in found.says  # 41.20 + 0.55 > 2.00


def test_two_strangers_are_added_up() -> None:
    # 79.15 = 0.35 + 20.00 + 18.50 + 40.30
    message = oom(
        free="0.35 GiB",
        others=[(100, "20.00 GiB"), (9000, "18.50 GiB")],
        process="40.30 GiB",
        allocated="39.00 GiB",
        cached="0.60 GiB",
    )
    found = finding(failed(FORWARD, message), "other_process")
    assert found.numbers["other_processes_bytes"] == gib(20.00) + gib(18.50)


def test_a_stranger_that_would_not_have_made_room_is_only_possible() -> None:
    # 1.20 + 0.10 free < 2.00 asked for; 79.15 = 0.10 + 1.20 + 77.85
    message = oom(
        free="0.10 GiB",
        others=[(4242, "1.20 GiB")],
        process="77.85 GiB",
        allocated="76.50 GiB",
        cached="0.75 GiB",
    )
    diagnosis = failed(FORWARD, message)
    assert finding(diagnosis, "other_process").certainty is Certainty.POSSIBLE
    assert top(diagnosis) == "activations"


def test_a_desktop_is_no_neighbour() -> None:
    # 79.15 - 0.55 free - 78.29 this process = 0.31 GiB = 317.44 MiB for all others, and each of the three printed
    # numbers may be off by half of 0.01 GiB = 5.12 MiB: at most 332.80 MiB
    message = oom(free="0.55 GiB", others=[(1811, "310.00 MiB")], process="78.29 GiB", cached="1.20 GiB")
    diagnosis = failed(FORWARD, message)
    assert "other_process" not in causes(diagnosis)
    assert "332.80 MiB" in ruled_out(diagnosis, "other_process")


def test_the_rest_of_the_card_belongs_to_processes_without_a_name() -> None:
    # 79.15 - 1.05 free - 30.10 this process = 48.00 GiB
    message = oom(process="30.10 GiB", allocated="28.90 GiB", cached="0.60 GiB")
    found = finding(failed(MODEL_TO, message), "other_process")
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"other_processes_bytes": gib(79.15) - gib(1.05) - gib(30.10)}
    assert "48.00 GiB" in found.says


def test_without_process_clauses_the_difference_speaks() -> None:
    # 79.15 - 1.05 - 40.00 = 38.10 GiB are neither free nor PyTorch's
    diagnosis = failed(FORWARD, old_oom(reserved="40.00 GiB", allocated="39.20 GiB"))
    found = finding(diagnosis, "other_process")
    assert top(diagnosis) == "other_process"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"not_torch_bytes": gib(79.15) - gib(1.05) - gib(40.00)}
    assert "38.10 GiB" in found.says


def test_an_ordinary_context_is_ruled_out_with_its_size() -> None:
    # 79.15 - 1.05 - 77.50 = 0.60 GiB = 614.40 MiB
    diagnosis = failed(FORWARD, old_oom())
    assert "other_process" not in causes(diagnosis)
    assert "614.40 MiB" in ruled_out(diagnosis, "other_process")


def test_the_number_alone_is_never_certain() -> None:
    for reserved in ("1.00 GiB", "20.00 GiB", "60.00 GiB"):
        diagnosis = failed(FORWARD, old_oom(reserved=reserved, allocated="0.90 GiB"))
        assert finding(diagnosis, "other_process").certainty is not Certainty.CERTAIN


@pytest.mark.parametrize("name", ["python", "/usr/bin/python3", "C:\\Games\\game.exe"])
def test_a_bare_error_on_a_card_that_nvidia_smi_shows_full(name: str) -> None:
    smi = SMI.format(used=80310, pid="  77123", name=f"{name:<15}")
    error = "RuntimeError: CUDA error: out of memory"
    log = traceback(["train.py:30 in main: torch.cuda.set_device(local_rank)"], error)
    diagnosis = diagnosed(smi + log)
    found = finding(diagnosis, "other_process")
    assert top(diagnosis) == "other_process"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"other_processes_bytes": mib(80310)}
    assert "77123" in found.says


def test_a_bare_error_on_a_card_that_nvidia_smi_shows_empty() -> None:
    smi = SMI.format(used=" 1310", pid="  77123", name="python         ")
    error = "RuntimeError: CUDA error: out of memory"
    log = traceback(["train.py:30 in main: torch.cuda.set_device(local_rank)"], error)
    assert "other_process" not in causes(diagnosed(smi + log))


def test_numbers_are_those_of_the_message() -> None:
    assert format_bytes(gib(41.20)) == "41.20 GiB"
