"""Planted causes in a job that really trains and really runs out of memory: each is isolated in the fewest trials.

tests/trial/scripts/train.py says what its tensors take. The numbers of trials follow from the protocol: as given, each
variable at its least until it fits, a check that the earlier ones may go back, and the limit between two neighbours,
where what was measured says where it is: two trials.
"""

from __future__ import annotations

import sys

import pytest

from tests.trial.bisecting import bisect, outcomes, settings

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a CPU whose memory has a limit")
MIB = 1 << 20


def test_the_batch(tmp_path):
    """20 MiB each: 6 x 20 + 2 = 122 MiB fit in 130, 7 x 20 + 2 = 142 do not."""
    answer, said = bisect(
        tmp_path, "--param batch=16:1 -- --batch {batch}", script="train.py", OOMPH_CPU_CAPACITY="130MiB"
    )
    assert (answer["verdict"], answer["causes"], answer["setting"]) == ("cause", ["batch"], {"batch": 6})
    assert settings(answer, "batch") == [(16,), (1,), (7,), (6,)]
    assert outcomes(answer) == ["oom", "fits", "oom", "fits"]
    (batch,) = answer["variables"]
    assert (batch["largest"], batch["fails"]) == (6, 7)
    slopes = {line["phase"]: line for line in answer["lines"]}
    assert round(slopes["forward"]["slope_bytes"]) == 20 * MIB
    # The scale and the loss are 512 bytes each, and the forward lasts until the backward begins.
    assert slopes["forward"]["points"] == [[1.0, 20 * MIB + 1024], [6.0, 120 * MIB + 1024]]
    assert slopes["forward"]["deviation_bytes"] is None
    assert round(slopes["optimizer"]["slope_bytes"]) == 0
    # 10 % of 130 MiB free leaves 117 MiB: 5 x 20 + 2.
    assert answer["recommended"]["setting"] == {"batch": 5}
    assert answer["recommended"]["measured"] is False
    assert all(trial["known_by"] == "records" for trial in answer["trials"])
    assert "trial 4: batch=6: fits" in said
    assert "--batch 5" in answer["next_commands"][0]


def test_the_context(tmp_path):
    """A single sequence of 16384 takes 32 MiB + 2 > 33. With the batch as given, 4, one of 2048 takes 16 MiB in one
    segment of 20, + 2 = 22; of 4096 32 + 2."""
    answer, _ = bisect(
        tmp_path,
        "--param batch=4:1 --param seq=16384:1024 -- --batch {batch} --seq {seq}",
        script="train.py",
        OOMPH_CPU_CAPACITY="33MiB",
    )
    assert (answer["verdict"], answer["causes"]) == ("cause", ["seq"])
    assert answer["setting"] == {"batch": 4, "seq": 2048}
    assert settings(answer, "batch", "seq")[:4] == [(4, 16384), (1, 16384), (1, 1024), (4, 1024)]
    assert len(answer["trials"]) == 6
    line = next(one for one in answer["lines"] if (one["variable"], one["phase"]) == ("seq", "forward"))
    assert round(line["slope_bytes"]) == 2 * 4 * 1024


def test_the_evaluation_batch(tmp_path):
    """Training takes 40 MiB; evaluating 16 takes 320, 6 take 120 + 2 of 130."""
    answer, _ = bisect(
        tmp_path,
        "--param batch=2,1 --param --eval-batch=16:1 -- --batch {batch} --eval-batch 16",
        script="train.py",
        OOMPH_CPU_CAPACITY="130MiB",
    )
    assert (answer["verdict"], answer["causes"]) == ("cause", ["eval-batch"])
    assert answer["setting"] == {"batch": 2, "eval-batch": 6}
    assert len(answer["trials"]) == 6
    # It fails where the batch is made, between phases: the traceback says of which.
    assert [trial["phase"] for trial in answer["trials"][:2]] == ["eval", "eval"]
    assert not any("eval" in sentence for sentence in answer["not_tested"])


def test_the_optimizer(tmp_path):
    """Weight and gradient are 40 MiB; 55 hold no more than that: adamw needs 80, momentum 60."""
    answer, _ = bisect(
        tmp_path,
        "--param batch=2,1 --param opt=adamw|sgd -- --seq 256 --weight 20 --batch {batch} --opt {opt}",
        script="train.py",
        OOMPH_CPU_CAPACITY="55MiB",
    )
    assert (answer["verdict"], answer["causes"]) == ("cause", ["opt"])
    assert answer["setting"] == {"batch": 2, "opt": "sgd"}
    assert settings(answer, "batch", "opt") == [(2, "adamw"), (1, "adamw"), (1, "sgd"), (2, "sgd")]
    assert {trial["phase"] for trial in answer["trials"][:2]} == {"optimizer"}


def test_a_leak(tmp_path):
    """4 MiB stay after each step; of 100 MiB the batch takes 40, or 20 with a batch of 1, where it fails later."""
    answer, _ = bisect(
        tmp_path,
        "--param batch=2,1 --param seq=10240:1024 -- --batch {batch} --seq {seq} --keep 4",
        script="train.py",
        OOMPH_CPU_CAPACITY="100MiB",
    )
    assert (answer["verdict"], answer["causes"], answer["setting"]) == ("leak", [], None)
    assert [trial["growth_bytes"] for trial in answer["trials"]] == [4 * MIB, 4 * MIB]
    assert "4.00 MiB a step" in answer["summary"]
    assert answer["lines"] == []


def test_eight_ranks_under_torchrun(tmp_path):
    """Only rank 3 has the batch: it runs out with 7 (142 MiB of 130), and that ends the trial on all eight."""
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=8")
    answer, _ = bisect(
        tmp_path,
        "--param batch=7,6 -- --ranks --batch {batch}",
        script="train.py",
        command=launcher,
        OOMPH_CPU_CAPACITY="130MiB",
    )
    assert (answer["verdict"], answer["setting"]) == ("cause", {"batch": 6})
    failed, passed = answer["trials"]
    assert (failed["outcome"], failed["rank"], failed["world_size"]) == ("oom", 3, 8)
    assert (passed["outcome"], passed["world_size"]) == ("fits", 8)
    assert "on every rank" in passed["why"]
