"""Planted causes in a job that really trains and really runs out of memory: each is isolated in the fewest trials.

tests/trial/scripts/train.py says what its tensors take. The numbers of trials follow from the protocol: as given, each
variable at its least until it fits, a check that the earlier ones may go back, and the limit between two neighbours,
where what was measured says where it is: two trials. tests/trial/engines/test_bisect_ray.py asks the same of Ray.
"""

from __future__ import annotations

import sys

import pytest

from tests.trial import planted
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


@pytest.mark.parametrize(
    "isolated",
    [planted.the_context, planted.the_evaluation_batch, planted.the_optimizer, planted.a_leak],
    ids=["context", "evaluation", "optimizer", "leak"],
)
def test_another_cause(tmp_path, isolated):
    isolated(tmp_path, "local")


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
