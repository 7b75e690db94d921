"""Holds `oomph doctor` and `oomph bisect` against a real GPU: needs a GPU and a CUDA build of PyTorch.

    python benchmarks/gpu/check_doctor.py [--device cpu]

Checked are: that NVML and `nvidia-smi -q` tell the same of every card; that the checks of driver and build say what
PyTorch itself shows (a kernel runs, or does not); that a neighbour's bytes and a job's own are told apart; that the
limit that bisect finds is one: the value runs by itself, and the one above it runs out of memory. One line each, exit
code 1 if any differs. Takes about two minutes. `--device cpu` does what needs no GPU.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from oomph.api_doctor import doctor
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.live_cards import by_nvml, by_smi
from oomph.evidence.environment.model import Card
from oomph.probe.machine.details import NvmlDetails
from oomph.probe.machine.smi_text import SmiText

ROOT = Path(__file__).resolve().parents[2]
#: A job whose bytes can be counted: two tensors of batch x seq KiB.
SCRIPT = ROOT / "tests" / "trial" / "scripts" / "train.py"
MIB = 1 << 20
NEIGHBOUR = """
import torch
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
print(1, flush=True)
input()
"""
#: What both tell, and may not differ. Bytes in use change between two readings.
SAME = (
    "name",
    "total_bytes",
    "persistence",
    "mig",
    "ecc",
    "ecc_uncorrected",
    "remap_pending",
    "remap_failed",
    "compute_mode",
    "capability",
)
Result = tuple[bool, str]


def differences(nvml: Sequence[Card], smi: Sequence[Card]) -> list[str]:
    """What two readings of the same cards say differently, card by card (by uuid); what one does not tell is passed
    over. nvidia-smi prints whole MiB."""
    others = {card.uuid: card for card in smi}
    found: list[str] = []
    for card in nvml:
        other = others.get(card.uuid)
        if other is None:
            found.append(f"{card.uuid} is not in nvidia-smi's answer")
            continue
        for name in SAME:
            one, two = getattr(card, name), getattr(other, name)
            if one in (None, "") or two in (None, "") or one == two:
                continue
            if name == "total_bytes" and abs(one - two) < MIB:
                continue
            found.append(f"GPU {card.index} {name}: {one} by NVML, {two} by nvidia-smi")
    return found


def cards() -> Result:
    """NVML and nvidia-smi -q tell the same."""
    nvml, smi = Found(), Found()
    by_nvml(NvmlDetails(), nvml)
    by_smi(SmiText(), smi)
    found = differences(nvml.cards, smi.cards)
    return not found and bool(nvml.cards), "; ".join(found) or f"{len(nvml.cards)} cards by both"


def build() -> Result:
    """ENV101, ENV102 and ENV103 find something just where PyTorch cannot run a kernel."""
    code = "import torch; torch.ones(8, device='cuda').sum().item()"
    runs = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
    found = [one.code for one in doctor(select=["ENV101", "ENV102", "ENV103"]).findings]
    return runs == (not found), f"a kernel {'runs' if runs else 'does not run'}, found: {found or 'nothing'}"


def neighbour() -> Result:
    """A process with 1 GiB is another's, and with its number given the job's own."""
    with subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        stranger = _named(doctor(select=["ENV205"]), process.pid)
        own = _named(doctor(select=["ENV205"], pid=process.pid), process.pid)
        process.stdin.close()
    return stranger and not own, f"named as another's: {stranger}; as the job's own neighbour: {own}"


def _named(checkup: Any, pid: int) -> bool:
    return any([str(pid) in one.problem.says for one in checkup.findings])


def limit(device: str) -> Result:
    """The largest batch that bisect finds runs by itself, and the one above it runs out of memory."""
    # On a GPU a unit is 1 GiB, on the CPU 10 MiB of a card of 128 MiB.
    seq, most = (1 << 20, 128) if device == "cuda" else (10_240, 16)
    environment = dict(os.environ)
    if device == "cpu":
        environment["OOMPH_CPU_CAPACITY"] = "128MiB"
    job = [sys.executable, str(SCRIPT), "--device", device, "--seq", str(seq), "--steps", "4", "--batch"]
    oomph = [sys.executable, "-m", "oomph"]
    with tempfile.TemporaryDirectory() as folder:
        ask = [*oomph, "bisect", "-q", "--format", "json", "--param", f"batch={most}:1", "--"]
        answer = subprocess.run(
            [*ask, *job, "{batch}"], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            return False, f"bisect ended with {answer.returncode}: {(answer.stdout + answer.stderr)[-300:]}"
        value = int(json.loads(answer.stdout)["setting"]["batch"])
        codes = [
            subprocess.run(
                [*oomph, "record", "--phases", "--no-explain", "-q", "--", *job, str(batch)],
                cwd=folder,
                env=environment,
                capture_output=True,
                check=False,
            ).returncode
            for batch in (value, value + 1)
        ]
    return codes[0] == 0 and codes[1] != 0, f"batch {value}: exit code {codes[0]}; {value + 1}: {codes[1]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs every check; 1 if one differs."""
    parser = argparse.ArgumentParser(description="Holds oomph doctor and bisect against a real GPU.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device = parser.parse_args(arguments).device
    checks: dict[str, Callable[[], Result]] = {"limit": functools.partial(limit, device)}
    if device == "cuda":
        checks = {"cards": cards, "build": build, "neighbour": neighbour, **checks}
    good = True
    for name, check in checks.items():
        passed, text = check()
        good = good and passed
        print(f"{'ok  ' if passed else 'DIFF'} {name}: {text}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
