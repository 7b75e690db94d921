"""benchmarks/gpu/check_doctor.py: what of it needs no GPU."""

from __future__ import annotations

from benchmarks.gpu import check_doctor
from oomph.evidence.environment.model import Card
from oomph.evidence.model import Quote

QUOTE = Quote("", 0, "")
CARD = Card(QUOTE, index=0, uuid="GPU-1", name="A100", total_bytes=40 << 30, ecc=True)


def test_two_readings_of_a_card():
    rounded = Card(QUOTE, index=0, uuid="GPU-1", name="A100", total_bytes=(40 << 30) - 5, persistence=True)
    assert check_doctor.differences([CARD], [rounded]) == []
    other = Card(QUOTE, index=0, uuid="GPU-1", name="A100", ecc=False)
    assert check_doctor.differences([CARD], [other]) == ["GPU 0 ecc: True by NVML, False by nvidia-smi"]
    assert check_doctor.differences([CARD], []) == ["GPU-1 is not in nvidia-smi's answer"]


def test_the_limit_on_the_cpu(capsys):
    """Two tensors of 10 MiB for each of the batch, and 2 MiB for small ones: 6 fit 128 MiB, 7 do not."""
    assert check_doctor.main(["--device", "cpu"]) == 0
    assert "batch 6: exit code 0" in capsys.readouterr().out
