"""The judge with the real importer and the real plan."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

from benchmarks.judge.answers import answer
from benchmarks.judge.main import answers, main
from benchmarks.judge.report import as_json
from benchmarks.judge.rows import read
from oomph.job.importers.points import from_point
from oomph.predict.plan import plan

#: Llama-2-7B's dimensions: 32 layers of 4096, MLPs of 11008, 32 heads, 32000 words, head and embedding apart.
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
}
LAYER = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
PARAMETERS = 2 * 32000 * 4096 + 32 * LAYER + 4096
ROW = {
    "id": "end",
    "source": "arithmetic",
    "trust": "high",
    "model": {"name": "Llama-2-7B", "config": "llama.json"},
    "gpu": "unspecified",
    "num_gpus": 1,
    "parallel": {
        "strategy": "none",
        "data": 1,
        "tensor": 1,
        "context": 1,
        "pipeline": 1,
        "cpu_offload": "none",
    },
    "method": "full",
    "lora": None,
    "quantization": None,
    "precision": {
        "weights": "fp32",
        "compute": "fp32",
        "autocast": False,
        "master_weights": None,
        "grads": "fp32",
    },
    "optimizer": {"name": "adamw", "impl": "foreach", "state_dtype": "fp32", "offload": False},
    "checkpointing": "none",
    "activation_offload": False,
    "attention": "sdpa_efficient",
    "loss": "eager_fp32",
    "compile": False,
    "micro_batch": 1,
    "seq_len": 16,
    "image_size": None,
    "grad_accum": 1,
    "metric": "end_allocated",
    "uncertainty": None,
    "framework": "torch 2.13.0, transformers 5.24.0",
    "inferred": [],
}


def test_two_rows_by_arithmetic(tmp_path, capsys):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "llama.json").write_text(json.dumps(CONFIG))
    points = tmp_path / "points.jsonl"
    rows = [
        # Trainer drops the gradients after the step (model.zero_grad()): weights and two moments of 4 bytes stay, and
        # 16 tokens leave next to nothing else.
        {**ROW, "value_bytes": 12 * PARAMETERS},
        # In the step there are gradients too, and AdamW's foreach has one more set of the states' dtype
        # (exp_avg_sq_sqrt).
        {**ROW, "id": "peak", "metric": "max_allocated", "value_bytes": 20 * PARAMETERS},
        {**ROW, "id": "alien", "optimizer": {"name": "unheard", "impl": "foreach"}, "value_bytes": 1},
    ]
    points.write_text("\n".join(json.dumps(row) for row in rows))
    assert main("", ["--points", str(points), "--json", "--no-replay"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["n"] == 2
    assert said["worst"] < 0.005
    assert said["coverage"] == 1
    assert said["rows"][1]["phase"] == "optimizer"
    # nobody named the card: nothing is said about fitting
    assert said["verdicts"]["judged"] == 0
    assert [each["id"] for each in said["unsupported"]] == ["alien"]
    assert not said["unsupported"][0]["crashed"]


def outside() -> Path | None:
    """Published points, which are not part of the repository."""
    named = os.environ.get("OOMPH_CONFORMANCE")
    beside = Path(__file__).resolve().parents[4] / "shared"
    for folder in (Path(named) / "points", Path(named).parent / "points") if named else (beside / "points",):
        if (folder / "dev.jsonl").is_file():
            return folder
    return None


POINTS = outside()


@cache
def judged():
    """The replay takes most of the time, and allocated counters do not need it."""
    assert POINTS is not None
    configs = POINTS / "configs"
    points = [
        answer(row, configs, from_point, plan, replay=row.metric == "max_reserved")
        for row in read(POINTS / "dev.jsonl")
    ]
    return as_json(points, answers(POINTS / "oom_dev.jsonl", from_point, plan, replay=False))


def test_published_points():
    """Nothing to show where the points are not there."""
    if POINTS is None:
        return
    said = judged()
    assert said["median"] <= 0.02
    assert said["p90"] <= 0.06
    assert [each["id"] for each in said["rows"] if each["error"] and abs(each["error"]) > 0.15] == []
    assert not any(each["crashed"] for each in said["unsupported"])
    assert said["false_fits"] == 0, said["verdicts"]["false_fits"]
    assert said["false_ooms"] <= 0.1 * said["verdicts"]["fits"]


def test_a_row_depends_on_no_other():
    if POINTS is None:
        return
    first = read(POINTS / "dev.jsonl")[0]
    alone = answer(first, POINTS / "configs", from_point, plan, replay=False)
    assert alone.predicted == judged()["rows"][0]["predicted"]
