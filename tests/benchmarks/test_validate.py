"""benchmarks/gpu/validate.py, the whole way on the CPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.gpu import validate
from benchmarks.gpu.validating.points import row
from benchmarks.gpu.validating.works import works
from benchmarks.judge import rows as points
from oomph.hardware.names import gpu
from oomph.job.importers.points import from_point

FACTS: dict[str, Any] = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "versions": {"torch": "2.9.0+cu128", "transformers": "5.1.0"},
}


@pytest.fixture(scope="module")
def validated(tmp_path_factory):
    """One job, run; a second one that there is no time for."""
    folder = tmp_path_factory.mktemp("validate")
    only = ["--only", "small-lora-checkpointed-foreach"]
    code = validate.main(["--device", "cpu", "--out", str(folder), *only])
    return code, folder, json.loads((folder / "validate.json").read_text(encoding="utf-8"))


def test_phases_agree_with_the_snapshot_to_the_byte(validated):
    code, _, table = validated
    assert code == 0, table
    (result,) = table["results"]
    assert result["good"], result
    checks = {name: its["check"] for name, its in result["phases"].items() if "check" in its}
    assert set(checks) >= {"forward", "backward", "optimizer", "eval"}
    for check in checks.values():
        assert abs(check["off_bytes"]) <= 4096
        assert not check["elsewhere"] or check["elsewhere"] < 0.01


def test_the_step_holds_what_arithmetic_says(validated):
    """Hidden size 64, two of four heads for keys and values, two layers, fp32. Adapters of rank 16 on four projections:
    16 * (64 + 64) for q and o, 16 * (64 + 32) for k and v, each with a gradient and two moments. The weights: a tied
    embedding of 512 rows, and in each layer q and o (64 x 64), k and v (64 x 32), three of 64 x 128, two norms."""
    _, _, table = validated
    adapters = 4 * 2 * (2 * 16 * (64 + 64) + 2 * 16 * (64 + 32))
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    weights = 4 * (512 * 64 + 2 * layer + 64)
    held = table["results"][0]["phases"]["optimizer"]["recorded"] - weights - 4 * adapters
    # On top: the step's temporaries (foreach has at most two sets), rotary tables, the batch, the loss.
    assert 0 <= held <= 2 * adapters + (64 << 10)


def test_what_was_measured_is_a_file_of_points(validated):
    _, folder, table = validated
    read = points.read(folder / "points.jsonl")
    assert [(each.metric, each.problem) for each in read] == [("max_allocated", None), ("max_reserved", None)]
    assert all(not each.ignored for each in read)
    job = from_point(read[0].raw, folder / "configs")
    assert (job.method.name, job.checkpointing.mode, job.optimizer.impl) == ("lora", "full", "foreach")
    assert job.framework.name == "transformers"
    training = ("load", "forward", "backward", "optimizer")
    phases = table["results"][0]["phases"]
    assert read[0].measured == max(phases[name]["recorded"] for name in training)


def test_it_stops_in_time_and_says_what_it_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(validate, "_card", lambda _: {**FACTS, "capacity": None})
    code = validate.main(["--device", "cpu", "--out", str(tmp_path), "--minutes", "0"])
    assert code == 1  # nothing ran
    table = json.loads((tmp_path / "validate.json").read_text(encoding="utf-8"))
    assert len(table["left_out"]) == 18
    assert all("s were left" in why for why in table["left_out"].values())
    assert "0 of 0 jobs good, 18 left out" in capsys.readouterr().out


def test_without_a_gpu_it_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(validate, "_card", lambda _: None)
    assert validate.main(["--out", str(tmp_path)]) == 2
    assert "--device cpu" in capsys.readouterr().err


def test_what_is_predicted_not_to_fit_is_not_tried(tmp_path):
    large = next(each for each in works(tiny=False) if each.name == "large-full-plain-foreach")
    card = {**FACTS, "capacity": 16 << 30}
    assert "GiB are predicted" in validate._too_large(large, card)
    assert validate._too_large(large, {**card, "capacity": 140 << 30}) == ""


def test_every_job_is_one_that_a_plan_understands(tmp_path):
    names = [each.name for each in works(tiny=False)]
    assert len(set(names)) == 18
    for work in works(tiny=False):
        point = row(work, FACTS)
        assert gpu(point["gpu"]).name == gpu(FACTS["gpu"]).name
        (tmp_path / point["model"]["config"]).write_text(json.dumps(work.config), encoding="utf-8")
        job = from_point({**point, "id": "x", "metric": "max_allocated", "value_bytes": 1}, tmp_path)
        assert job.hardware.gpu
        assert job.precision.weights == work.weights
