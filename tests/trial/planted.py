"""Planted causes that more than one engine is asked to isolate: tests/trial/scripts/train.py says what its tensors
take. The numbers of trials follow from the protocol."""

from __future__ import annotations

from tests.trial.bisecting import bisect, settings

MIB = 1 << 20


def the_context(tmp_path, engine):
    """A single sequence of 16384 takes 32 MiB + 2 > 33. With the batch as given, 4, one of 2048 takes 16 MiB in one
    segment of 20, + 2 = 22; of 4096 32 + 2."""
    answer, _ = bisect(
        tmp_path,
        f"--engine {engine} --param batch=4:1 --param seq=16384:1024 -- --batch {{batch}} --seq {{seq}}",
        script="train.py",
        OOMPH_CPU_CAPACITY="33MiB",
    )
    assert (answer["verdict"], answer["causes"]) == ("cause", ["seq"])
    assert answer["setting"] == {"batch": 4, "seq": 2048}
    assert settings(answer, "batch", "seq")[:4] == [(4, 16384), (1, 16384), (1, 1024), (4, 1024)]
    assert len(answer["trials"]) == 6
    line = next(one for one in answer["lines"] if (one["variable"], one["phase"]) == ("seq", "forward"))
    assert round(line["slope_bytes"]) == 2 * 4 * 1024


def the_evaluation_batch(tmp_path, engine):
    """Training takes 40 MiB; evaluating 16 takes 320, 6 take 120 + 2 of 130."""
    answer, _ = bisect(
        tmp_path,
        f"--engine {engine} --param batch=2,1 --param --eval-batch=16:1 -- --batch {{batch}} --eval-batch 16",
        script="train.py",
        OOMPH_CPU_CAPACITY="130MiB",
    )
    assert (answer["verdict"], answer["causes"]) == ("cause", ["eval-batch"])
    assert answer["setting"] == {"batch": 2, "eval-batch": 6}
    assert len(answer["trials"]) == 6
    # It fails where the batch is made, between phases: the traceback says of which.
    assert [trial["phase"] for trial in answer["trials"][:2]] == ["eval", "eval"]
    assert not any("eval" in sentence for sentence in answer["not_tested"])


def the_optimizer(tmp_path, engine):
    """Weight and gradient are 40 MiB; 55 hold no more than that: adamw needs 80, momentum 60."""
    answer, _ = bisect(
        tmp_path,
        f"--engine {engine} "
        "--param batch=2,1 --param opt=adamw|sgd -- --seq 256 --weight 20 --batch {batch} --opt {opt}",
        script="train.py",
        OOMPH_CPU_CAPACITY="55MiB",
    )
    assert (answer["verdict"], answer["causes"]) == ("cause", ["opt"])
    assert answer["setting"] == {"batch": 2, "opt": "sgd"}
    assert settings(answer, "batch", "opt") == [(2, "adamw"), (1, "adamw"), (1, "sgd"), (2, "sgd")]
    assert {trial["phase"] for trial in answer["trials"][:2]} == {"optimizer"}


def a_leak(tmp_path, engine):
    """4 MiB stay after each step; of 100 MiB the batch takes 40, or 20 with a batch of 1, where it fails later."""
    answer, _ = bisect(
        tmp_path,
        f"--engine {engine} "
        "--param batch=2,1 --param seq=10240:1024 -- --batch {batch} --seq {seq} --keep 4",
        script="train.py",
        OOMPH_CPU_CAPACITY="100MiB",
    )
    assert (answer["verdict"], answer["causes"], answer["setting"]) == ("leak", [], None)
    assert [trial["growth_bytes"] for trial in answer["trials"]] == [4 * MIB, 4 * MIB]
    assert "4.00 MiB a step" in answer["summary"]
    assert answer["lines"] == []
