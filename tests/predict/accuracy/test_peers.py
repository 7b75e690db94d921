from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks.judge.answers import Answer
from benchmarks.judge.rows import Row as Measured
from benchmarks.peer import compare, worker
from benchmarks.peer.install import ADAPTERS, adapter
from benchmarks.peer.row import CannotError, Reply, Row

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}


def raw(**more):
    return {"id": "r", "metric": "max_allocated", "model": {"config": "m.json"}, **more}


@pytest.fixture
def configs(tmp_path):
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "m.json").write_text(json.dumps(CONFIG))
    return folder


def lora(configs, *targets, rank=8):
    return Row(raw(lora={"rank": rank, "target_modules": list(targets)}), configs).lora_parameters()


def test_adapters_are_counted_as_peft_makes_them(configs):
    # A of (rank, inputs) and B of (outputs, rank); 3 layers, rank 8; heads of 16, keys and values 32 wide
    assert lora(configs, "q_proj") == 3 * 8 * (64 + 64)
    assert lora(configs, "v_proj") == 3 * 8 * (64 + 32)
    assert lora(configs, "down_proj", "o_proj") == 3 * 8 * ((96 + 64) + (64 + 64))
    assert lora(configs, "lm_head", rank=2) == 2 * (64 + 1000)
    with pytest.raises(CannotError, match="c_attn"):
        lora(configs, "c_attn")


def test_a_configuration_without_a_dimension_is_said_so(configs):
    row = Row(raw(), configs)
    assert row.dimension("num_kv_heads", "num_key_value_heads") == 2
    assert row.dimension("head_dim", default=16) == 16
    with pytest.raises(CannotError, match="head_dim"):
        row.dimension("head_dim")


def test_every_adapter_says_what_it_installs_and_what_it_is():
    for name in ADAPTERS:
        module = adapter(name)
        assert module.NAME
        assert module.PACKAGE in module.INSTALL
        assert module.__doc__


def test_a_program_that_fails_at_a_row_has_no_answer_for_it(tmp_path, configs, capsys):
    def answer(row):
        sys.stdout.write("noise")
        if row.id == "a":
            return Reply(1000, ("no dropout",))
        if row.id == "b":
            raise CannotError("adapters")
        raise ZeroDivisionError("oops")

    fake = SimpleNamespace(NAME="fake", PACKAGE="pytest", answer=answer)
    points = tmp_path / "points.jsonl"
    points.write_text("\n".join(json.dumps({**raw(), "id": each}) for each in "abc"))
    said = worker.answers(fake, points)
    assert said["name"] == "fake"
    assert [each["predicted"] for each in said["answers"]] == [1000, None, None]
    assert said["answers"][0]["stand_ins"] == ["no dropout"]
    assert said["answers"][1]["reason"] == "adapters"
    assert said["answers"][2]["reason"] == "failed: ZeroDivisionError: oops"
    assert capsys.readouterr().out == ""


def test_the_line_of_a_program():
    card = "A10G"
    room = compare.room(card)
    assert room is not None
    rows = [Measured(name, "s", "max_allocated", 100, gpu=card) for name in "abc"]
    outcomes = [
        Measured("o1", "s", "max_allocated", None, "oom", card),
        Measured("o2", "s", "max_allocated", None, "oom", card, "extrapolation"),
        Measured("f", "s", "max_allocated", 100, "fits", card),
    ]
    said = {
        "name": "p",
        "version": "1",
        "answers": [
            {"predicted": 110, "stand_ins": [], "reason": None},
            {"predicted": 150, "stand_ins": ["x"], "reason": None},
            {"predicted": None, "stand_ins": [], "reason": "adapters"},
        ],
    }
    verdicts = {
        "answers": [
            {"predicted": size, "stand_ins": [], "reason": None} for size in (room, room + 1, room + 1)
        ]
    }
    ours = [Answer(row, 102, 90, 110) for row in rows]
    line = compare.line(said, verdicts, rows, outcomes, ours)
    assert (line.rows, line.all.n, line.described.n, line.same.n) == (3, 2, 1, 2)
    assert line.all.median == pytest.approx(0.3)
    assert line.described.worst == pytest.approx(0.1)
    assert line.same.worst == pytest.approx(0.02)
    # what fits to the byte fits: o1 is a wrong fit, o2 a right OOM, f a wrong OOM
    assert (line.false_fits, line.ooms, line.false_ooms, line.fits) == (1, 2, 1, 1)
    assert line.reasons == {"adapters": 1}
    far = [Answer(row, 112, 90, 110) for row in rows]
    # 10 % and 50 % against 12 % each
    assert compare.line(said, verdicts, rows, outcomes, far).nearer == 1
    table = compare.as_markdown([line])
    assert "| p 1 | 2 of 3 | 1 | 30.0% | 50.0% | 50.0% | +30% | 1 of 2 | 1 of 1 | 2.0%, 2.0% | 0 |" in table


def test_a_card_that_nobody_knows_has_no_room():
    assert compare.room("unspecified") is None
