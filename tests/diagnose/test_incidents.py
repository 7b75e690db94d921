"""From prints to incidents: one failure told five times is one, two failures told alike are two."""

from __future__ import annotations

import json

from oomph.diagnose.incidents import group
from tests.diagnose.logs import BACKWARD, FORWARD, diagnosed, evidence, groups, oom, steps, traceback

ERROR = oom(gpu=1)
TABLE = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-04_10:11:12
  host      : node1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4243)
  error_file: /tmp/torchelastic/attempt_0/1/error.json
  traceback : Traceback (most recent call last):
    File "/workspace/train.py", line 88, in train
      logits = model(tokens)
  {message}
============================================================
"""


def test_five_prints_of_one_failure() -> None:
    log = (
        steps(1, 20)
        + f"ERROR:trainer:training failed: {ERROR}\n"
        + traceback(FORWARD, ERROR)
        + f"FAILED tests/test_train.py::test_run - {ERROR}\n"
        + TABLE.format(message=ERROR)
    )
    report = json.dumps(
        {"message": {"message": ERROR, "extraInfo": {"py_callstack": traceback(FORWARD, ERROR)}}}
    )
    diagnosis = diagnosed(log, report)
    assert len(diagnosis.incidents) == 1
    assert len(diagnosis.incident.copies) >= 4
    assert diagnosis.incident.traceback is not None


def test_a_print_that_is_cut_is_still_the_same_failure() -> None:
    cut = ERROR[: ERROR.index(" of which")] + "\n"
    assert groups(traceback(FORWARD, ERROR) + cut) == 1


def test_one_failure_for_each_rank() -> None:
    log = "".join(traceback(FORWARD, oom(gpu=rank), prefix=f"[rank{rank}]: ") for rank in range(4))
    diagnosis = diagnosed(log)
    assert [one.rank for one in diagnosis.incidents] == [0, 1, 2, 3]
    assert diagnosis.ranks.failed == (0, 1, 2, 3)


def test_ranks_that_interleave_line_by_line() -> None:
    texts = [
        traceback(FORWARD, oom(gpu=rank, free=f"{rank}.05 GiB"), prefix=f"[rank{rank}]: ")
        for rank in range(2)
    ]
    rows = [text.rstrip("\n").split("\n") for text in texts]
    mixed = "".join(f"{row}\n" for pair in zip(*rows, strict=True) for row in pair)
    diagnosis = diagnosed(mixed)
    assert [one.rank for one in diagnosis.incidents] == [0, 1]
    assert all(str(one.phase.phase) == "forward" for one in diagnosis.incidents)


def test_other_numbers_are_another_failure_of_the_same_rank() -> None:
    first = traceback(FORWARD, oom("2.00 GiB"))
    second = traceback(BACKWARD, oom("512.00 MiB", allocated="76.90 GiB", cached="0.60 GiB"))
    assert groups(first + steps(21, 30) + second) == 2


def test_equal_messages_with_training_between_them_are_two() -> None:
    message = traceback(FORWARD, oom())
    assert groups(message + steps(1, 10) + message) == 2
    assert groups(message + message) == 1


def test_the_same_message_on_another_gpu_is_another_failure() -> None:
    assert groups(traceback(FORWARD, oom(gpu=0)) + traceback(FORWARD, oom(gpu=1))) == 2


def test_a_driver_error_beside_the_message_is_its_echo() -> None:
    log = traceback(FORWARD, oom()) + "RuntimeError: CUDA error: out of memory\n"
    assert groups(log) == 1


def test_the_lead_is_the_print_with_the_most_numbers() -> None:
    cut = ERROR[: ERROR.index(" of which")] + "\n"
    (only,) = group(evidence(cut + traceback(FORWARD, ERROR)))
    assert "free_bytes" in only.lead.numbers
    assert only.traceback is not None


def test_a_traceback_of_something_else_is_not_taken() -> None:
    other = traceback(["data.py:5 in load: raise ValueError(path)"], "ValueError: no such shard")
    (only,) = group(evidence(other + steps(1, 10) + ERROR + "\n"))
    assert only.traceback is None


DATA_PARALLEL = traceback(
    [
        "train.py:88 in train: logits = model(tokens)",
        "torch/nn/parallel/data_parallel.py:185 in forward: outputs = self.parallel_apply(replicas, inputs, kwargs)",
        "torch/nn/parallel/parallel_apply.py:110 in parallel_apply: output.reraise()",
        "torch/_utils.py:694 in reraise: raise exception",
    ],
    "torch.cuda.OutOfMemoryError: Caught OutOfMemoryError in replica 0 on device 0.",
)


def test_data_parallels_caught_is_not_a_program_that_goes_on() -> None:
    original = traceback(FORWARD, oom()).replace("Traceback (most", "Original Traceback (most", 1)
    diagnosis = diagnosed(steps(1, 20) + DATA_PARALLEL + original)
    assert [one.status for one in diagnosis.incidents] == ["fatal"]
    assert str(diagnosis.phase.phase) == "forward"


def test_what_fails_while_the_first_failure_is_handled_is_not_the_cause() -> None:
    between = "\nDuring handling of the above exception, another exception occurred:\n\n"
    save = [
        "train.py:150 in main: rescue(model)",
        "train.py:99 in rescue: torch.save(model.state_dict(), path)",
    ]
    diagnosis = diagnosed(
        traceback(FORWARD, oom()) + between + traceback(save, oom("512.00 MiB", cached="0.90 GiB"))
    )
    assert diagnosis.incident is diagnosis.incidents[0]
    assert str(diagnosis.phase.phase) == "forward"


def test_a_bar_between_the_frames_and_the_error() -> None:
    rows = traceback(FORWARD, oom()).split("\n")
    bar = " 50%|#####     | 50/100 [00:05<00:05, 3.3it/s, loss=2.5]"
    diagnosis = diagnosed("\n".join([*rows[:4], bar, *rows[4:]]))
    assert str(diagnosis.phase.phase) == "forward"
    assert len(diagnosis.incident.traceback.frames) == len(FORWARD)


def test_a_log_that_begins_inside_a_traceback() -> None:
    diagnosis = diagnosed("\n".join(traceback(FORWARD, oom()).split("\n")[3:]))
    assert str(diagnosis.phase.phase) == "forward"
