"""Run directories explained: what was recorded beside what was printed, and alone."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from oomph.api import explain
from oomph.diagnose.model import Outcome
from oomph.errors import InputError
from oomph.evidence.model import Kind
from oomph.evidence.run.model import GpuSample
from oomph.phases import Phase
from oomph.probe.model import Counters, Gpu, Host, Process
from oomph.report.json import read_schema, render_json
from oomph.report.options import ReportOptions
from oomph.report.text import render_text
from tests.evidence.run.making import GIB, HERE, NOBODY, START, Maker

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

MESSAGE = (
    "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 2 has a total capacity of 80.00 GiB of which 1024.00 MiB is "
    "free. Including non-PyTorch memory, this process has 77.00 GiB memory in use. Of the allocated memory 70.00 GiB "
    "is allocated by PyTorch, and 6.00 GiB is reserved by PyTorch but unallocated."
)
GLOO = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:14475"
TRACEBACK = f"""Traceback (most recent call last):
  File "/home/me/train.py", line 30, in <module>
    loss.backward()
  File "/venv/lib/python3.11/site-packages/torch/autograd/__init__.py", line 395, in backward
    _engine_run_backward(
torch.OutOfMemoryError: {MESSAGE}
"""


def four_ranks(path, *, phase: Phase = Phase.BACKWARD, message: str = MESSAGE) -> Maker:
    """Rank 2 of 4 fails in step 3, 0 and 1 lose their connection, 3 is stopped."""
    made = Maker(path, world=4)
    for rank in range(4):
        made.begin(rank)
    for step in range(3):
        for rank in range(4):
            made.step(rank, step)
    made.oom(2, phase, 3, message=message, batch={"input_ids": (8, 2048)}, where="layers.3")
    made.end(2, "oom", f"OutOfMemoryError: {message}")
    for rank in (0, 1):
        made.phase(rank, Phase.BACKWARD, 3, raised="RuntimeError")
        made.end(rank, "exception", GLOO)
    made.now(3, Phase.BACKWARD, 3)
    made.finish(1)
    return made


def text_of(diagnosis) -> str:
    return render_text(diagnosis, ReportOptions(width=100))


def test_records_alone_are_enough(tmp_path):
    four_ranks(tmp_path / "run")
    found = explain([tmp_path / "run"])
    assert found.outcome is Outcome.FAILED
    incident = found.incident
    assert incident is not None
    assert (incident.rank, incident.phase.phase, incident.phase.evidence) == (2, Phase.BACKWARD, "recorded")
    assert incident.phase.first_step is False
    ledger = incident.ledger
    assert (ledger.capacity_bytes, ledger.free_bytes, ledger.allocated_bytes) == (80 * GIB, GIB, 70 * GIB)
    assert (ledger.outside_bytes, ledger.other_processes_bytes, ledger.segment_bytes) == (
        GIB,
        2 * GIB,
        4 * GIB,
    )
    assert ledger.cached_bytes == 6 * GIB
    assert ledger.origins["allocated_bytes"] == "recorded"
    assert ledger.problems == ()
    assert (found.ranks.first, found.ranks.failed, sorted(found.ranks.consequences)) == (2, (2,), [0, 1, 3])
    assert "RuntimeError in backward of step 3" in found.ranks.consequences[0]
    assert found.ranks.consequences[0] == found.ranks.consequences[1], "equal reasons are told together"
    facts = {fact.name: fact.value for fact in found.job}
    assert (facts["world_size"], facts["batch_size"], facts["sequence_length"]) == ("4", "8", "2048")
    assert found.findings
    assert "input_ids 8 x 2048" in " ".join(found.notes)


def test_quotes_name_the_line_of_the_record(tmp_path):
    four_ranks(tmp_path / "run")
    incident = explain([tmp_path / "run"]).incident
    assert incident is not None
    quote = incident.failure.quote
    lines = (tmp_path / "run/ranks/rank-00002.jsonl").read_text().splitlines()
    assert quote.source == str(tmp_path / "run/ranks/rank-00002.jsonl")
    assert json.loads(lines[quote.line - 1])["type"] == "oom"


def test_the_print_and_the_record_of_a_failure_are_one(tmp_path):
    made = four_ranks(tmp_path / "run")
    made.text("job.err", "".join(f"[rank2]: {line}\n" for line in TRACEBACK.splitlines()))
    found = explain([tmp_path / "run"])
    assert len(found.incidents) == 1
    incident = found.incidents[0]
    assert incident.failure.quote.source.endswith("job.err")
    assert incident.ledger.other_processes_bytes == 2 * GIB, "the record knows more than the message"
    assert incident.traceback is not None


def test_a_copy_in_the_rank_s_folder_is_no_second_failure(tmp_path):
    made = four_ranks(tmp_path / "run")
    made.text("job.err", "".join(f"[rank2]: {line}\n" for line in TRACEBACK.splitlines()))
    made.text("oom/rank-00002/traceback.txt", TRACEBACK)
    found = explain([tmp_path / "run"])
    assert len(found.incidents) == 1
    assert len(found.incidents[0].copies) == 1


def test_the_traceback_in_the_rank_s_folder_has_its_rank(tmp_path):
    made = four_ranks(tmp_path / "run")
    made.text("oom/rank-00002/traceback.txt", TRACEBACK)
    incident = explain([tmp_path / "run"]).incident
    assert incident is not None
    assert incident.rank == 2
    assert incident.traceback is not None


def test_a_phase_that_the_log_contradicts_is_said(tmp_path):
    made = four_ranks(tmp_path / "run", phase=Phase.OPTIMIZER)
    made.text("oom/rank-00002/traceback.txt", TRACEBACK)
    incident = explain([tmp_path / "run"]).incident
    assert incident is not None
    assert incident.phase.phase is Phase.OPTIMIZER
    assert "contradicts" in incident.phase.why
    assert "backward" in incident.phase.why


def test_a_forward_inside_an_evaluation_contradicts_nothing(tmp_path):
    made = four_ranks(tmp_path / "run", phase=Phase.EVAL)
    text = TRACEBACK.replace("loss.backward()", "output = model(batch)").replace(
        "torch/autograd/__init__.py", "torch/nn/modules/linear.py"
    )
    made.text("oom/rank-00002/traceback.txt", text.replace("in backward", "in forward"))
    incident = explain([tmp_path / "run"]).incident
    assert incident is not None
    assert incident.phase.phase is Phase.EVAL
    assert "contradicts" not in incident.phase.why


def test_a_caught_failure_with_a_run_that_went_on(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    made.oom(0, Phase.FORWARD, 0, message=MESSAGE, caught=True)
    made.step(0, 0)
    made.end(0, "completed")
    made.finish(0)
    found = explain([tmp_path / "run"])
    assert (found.outcome, found.exit_code) == (Outcome.RECOVERED, 0)


def test_a_run_that_completed(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    made.step(0, 0)
    made.end(0, "completed")
    made.finish(0)
    found = explain([tmp_path / "run"])
    assert (found.outcome, found.incident) == (Outcome.NO_OOM, None)
    assert "completed: rank 0" in " ".join(found.notes)


def host(available: int) -> Host:
    return Host(rss_bytes=20 * GIB, total_bytes=64 * GIB, available_bytes=available)


def test_a_kill_with_the_host_s_memory_at_its_end(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    for step in range(3):
        made.step(0, step, host=host(GIB))
    made.now(0, Phase.SAVE, 3)
    made.finish(137, 9)
    found = explain([tmp_path / "run"])
    assert found.incident is not None
    assert (found.incident.failure.kind, found.incident.phase.phase) == (Kind.KILLED, Phase.SAVE)
    assert (found.findings[0].code, str(found.findings[0].certainty)) == ("OOM501", "likely")
    assert found.findings[0].numbers["host_used_bytes"] == 63 * GIB


def test_a_kill_with_room_on_the_host_proves_nothing(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    made.step(0, 0, host=host(50 * GIB))
    made.finish(137, 9)
    found = explain([tmp_path / "run"])
    assert [str(one.certainty) for one in found.findings] == ["possible"]
    assert "14.00 GiB of the host's 64.00 GiB" in " ".join(found.notes)


@pytest.mark.parametrize(
    ("code", "signal", "says"),
    [
        (None, None, "A process ended without a last record (its records stop, and its process is gone)"),
        (7, None, "A process ended without a last record (its command ended with exit code 7)"),
        (139, 11, "A process ended without a last record (signal 11 ended its command)"),
        (137, 9, "A process was killed with signal 9"),
    ],
)
def test_an_end_without_a_last_record_is_no_sigkill_unless_somebody_says_so(tmp_path, code, signal, says):
    made = Maker(tmp_path / "run")
    made.begin(0)
    made.step(0, 0)
    if code is not None:
        made.finish(code, signal)
    found = explain([tmp_path / "run"])
    assert found.summary.startswith(says)
    text = text_of(found)
    assert ("killed with SIGKILL" in text, "who sent SIGKILL" in text) == (signal == 9, signal == 9)
    assert [str(one.certainty) for one in found.findings] == ["possible"]


def test_a_command_that_reported_success_was_not_killed(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    made.step(0, 0)
    made.finish(0)
    found = explain([tmp_path / "run"])
    assert found.incident is None
    assert "unknown: rank 0" in " ".join(found.notes)


def test_what_was_read_from_outside_after_the_end_is_not_taken_for_before(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    made.step(0, 0)
    time = START + made.clock
    made.gpus(
        HERE,
        GpuSample(time, made.clock, host=host(GIB)),
        GpuSample(time + 30, made.clock + 30, host=host(60 * GIB)),
    )
    made.finish(137, 9)
    assert explain([tmp_path / "run"]).findings[0].numbers["host_used_bytes"] == 63 * GIB


def test_of_several_killed_ranks_nobody_is_called_the_first(tmp_path):
    made = Maker(tmp_path / "run", world=2)
    for rank in (0, 1):
        made.begin(rank)
        made.step(rank, 0)
    made.finish(137, 9)
    found = explain([tmp_path / "run"])
    assert found.ranks.first is None
    assert "not recorded" in found.ranks.how


def test_the_launcher_says_whom_the_kill_hit(tmp_path):
    made = Maker(tmp_path / "run", world=2)
    for rank in (0, 1):
        made.begin(rank, pid=NOBODY + rank)
        made.step(rank, 0)
    made.finish(1)
    table = f"""torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=======================================================
train.py FAILED
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_22:27:02
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: {NOBODY + 1})
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID {NOBODY + 1}
=======================================================
"""
    made.text("job.err", table)
    found = explain([tmp_path / "run"])
    assert found.ranks.first == 1
    assert [one.rank for one in found.incidents] == [1]


def test_an_error_that_is_not_memory_is_told_from_the_records(tmp_path):
    made = Maker(tmp_path / "run", world=2)
    for rank in (0, 1):
        made.begin(rank)
    made.phase(0, Phase.FORWARD, 0, raised="ValueError")
    made.end(0, "exception", "ValueError: labels out of range")
    made.end(1, "exception", GLOO)
    found = explain([tmp_path / "run"])
    assert found.outcome is Outcome.NO_OOM
    assert ["ValueError: labels out of range" in quote.text for quote in found.other_errors] == [True]
    assert found.phase is not None
    assert found.phase.phase is Phase.FORWARD


def test_the_rank_that_is_asked_for(tmp_path):
    made = Maker(tmp_path / "run", world=2)
    for rank in (0, 1):
        made.begin(rank)
    made.oom(0, Phase.FORWARD, 0)
    made.oom(1, Phase.BACKWARD, 0)
    for rank in (0, 1):
        made.end(rank, "oom")
    first, second = explain([tmp_path / "run"]), explain([tmp_path / "run"], rank=1)
    assert first.incident is not None
    assert second.incident is not None
    assert (first.incident.rank, first.incident.phase.phase) == (0, Phase.FORWARD)
    assert (second.incident.rank, second.incident.phase.phase) == (1, Phase.BACKWARD)


def test_a_neighbour_on_the_card_of_the_rank(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0, pid=NOBODY, device_index=0)
    counters = Counters(
        allocated_bytes=30 * GIB, reserved_bytes=30 * GIB, free_bytes=9 * GIB, total_bytes=80 * GIB,
        outside_bytes=GIB, other_processes_bytes=40 * GIB,
    )  # fmt: skip
    made.oom(0, Phase.LOAD, -1, request_bytes=10 * GIB, counters=counters)
    cards = (
        Gpu(4, used_bytes=GIB, capacity_bytes=80 * GIB, processes=(Process(1, GIB, "other"),)),
        Gpu(
            5,
            used_bytes=71 * GIB,
            capacity_bytes=80 * GIB,
            processes=(Process(NOBODY, 31 * GIB, "python", ours=True), Process(77, 40 * GIB, "python")),
        ),
    )
    made.gpus(HERE, GpuSample(START + made.clock - 0.05, made.clock, cards))
    made.end(0, "oom")
    finding = explain([tmp_path / "run"]).findings[0]
    assert (finding.code, str(finding.certainty)) == ("OOM101", "likely")
    assert finding.numbers["other_processes_bytes"] == 40 * GIB
    assert "77" in finding.says


def test_facts_of_the_fingerprint(tmp_path):
    made = four_ranks(tmp_path / "run")
    made.fingerprint(
        {
            "versions.torch": "2.13.0+cu130",
            "versions.driver": "580.1",
            "environment.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "arguments.per_device_train_batch_size": "6",
            "arguments.gradient_checkpointing": "True",
        }
    )
    facts = {fact.name: fact.value for fact in explain([tmp_path / "run"]).job}
    assert facts["torch_version"] == "2.13.0+cu130"
    assert facts["driver_version"] == "580.1"
    assert facts["alloc_conf"] == "expandable_segments:True"
    assert facts["batch_size"] == "6", "the argument, not the shape of one batch"
    assert facts["checkpointing"] == "true"


def test_several_runs_and_a_log_together(tmp_path):
    four_ranks(tmp_path / "run")
    (tmp_path / "console.log").write_text("step 1 loss 2.0\n")
    assert explain([tmp_path / "run", tmp_path / "console.log"]).ranks.first == 2


def test_a_run_still_going_on(tmp_path):
    import os

    made = Maker(tmp_path / "run", world=2)
    made.begin(0, pid=os.getpid())
    made.begin(1)
    made.now(0, Phase.BACKWARD, 4, pid=os.getpid())
    made.oom(1, Phase.BACKWARD, 4)
    made.end(1, "oom")
    found = explain([tmp_path / "run"])
    assert found.ranks.first == 1
    assert "still running in backward of step 4" in found.ranks.consequences[0]


def test_text_and_json_of_a_run(tmp_path):
    four_ranks(tmp_path / "run")
    found = explain([tmp_path / "run"])
    document = json.loads(render_json(found, ReportOptions()))
    jsonschema.Draft202012Validator(json.loads(read_schema())).validate(document)
    text = text_of(found)
    assert "rank 2 failed first" in text
    assert "recorded" in text


def test_a_thousand_ranks_are_explained(tmp_path):
    made = Maker(tmp_path / "run", world=1024)
    for rank in range(1024):
        made.begin(rank)
        made.phase(rank, Phase.FORWARD, 0)
    made.oom(700, Phase.BACKWARD, 0, message=MESSAGE)
    for rank in range(1024):
        made.end(rank, "oom" if rank == 700 else "exception", "" if rank == 700 else GLOO)
    found = explain([tmp_path / "run"])
    assert (found.ranks.first, len(found.ranks.consequences)) == (700, 1023)
    assert len(text_of(found).splitlines()) < 120


def test_a_folder_of_runs_is_not_read_as_one(tmp_path):
    four_ranks(tmp_path / "runs" / "a")
    with pytest.raises(InputError, match="name one, such as"):
        explain([tmp_path / "runs"])
    (tmp_path / "runs" / "train.log").write_text("step 1 loss 2.0\n")
    assert explain([tmp_path / "runs"]).evidence.documents


def test_a_neighbour_that_came_while_the_run_went_on_is_named(tmp_path):
    made = four_ranks(tmp_path / "run")
    ours, there = Process(NOBODY, 9 * GIB, "python", ours=True), Process(5, GIB, "Xorg")
    came = Process(6, 3 * GIB, "jupyter")
    samples = [(ours, there), (ours, there, came), (ours, there, Process(6, 2 * GIB, "jupyter"))]
    made.gpus(
        HERE, *(GpuSample(START + n, float(n), (Gpu(3, processes=one),)) for n, one in enumerate(samples))
    )
    notes = " ".join(explain([tmp_path / "run"]).notes)
    assert "jupyter (process 6)" in notes
    assert "3.00 GiB" in notes
    assert "Xorg" not in notes


def test_a_run_on_another_file_system_has_to_be_copied():
    with pytest.raises(InputError, match="oomph runs copy s3://bucket/runs/a"):
        explain(["s3://bucket/runs/a"])


def test_a_restart_that_went_well_is_no_failure(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    made.step(0, 0)
    made.oom(0, Phase.BACKWARD, 1, message=MESSAGE)
    made.end(0, "oom")
    made.begin(0, attempt=1)
    for step in range(4):
        made.step(0, step)
    made.end(0, "completed")
    made.finish(0)
    made.text("job.err", TRACEBACK)
    found = explain([tmp_path / "run"])
    assert (found.outcome, found.exit_code) == (Outcome.RECOVERED, 0)
    assert "Restarted" in " ".join(found.notes)


def test_a_restart_that_failed_the_same_way_is_a_failure(tmp_path):
    made = Maker(tmp_path / "run")
    for attempt in (0, 1):
        made.begin(0, attempt=attempt)
        made.oom(0, Phase.BACKWARD, 0, message=MESSAGE)
        made.end(0, "oom")
    made.finish(1)
    made.text("job.err", TRACEBACK * 2)
    found = explain([tmp_path / "run"])
    assert (found.outcome, found.ranks.first) == (Outcome.FAILED, 0)


TRAINER = {
    "versions.torch": "2.13.0+cu130",
    "versions.transformers": "5.24.0",
    "model.class": "LlamaForCausalLM",
    "model.parameters": "147776",
    "model.trainable": "147776",
    "model.dtypes": "float32 147776",
    "model.model_type": "llama",
    "model.hidden_size": "64",
    "model.intermediate_size": "128",
    "model.num_hidden_layers": "2",
    "model.num_attention_heads": "4",
    "model.num_key_value_heads": "4",
    "model.head_dim": "16",
    "model.vocab_size": "512",
    "model.tie_word_embeddings": "False",
    "model.attn_implementation": "sdpa",
    "arguments.per_device_train_batch_size": "8",
    "arguments.gradient_accumulation_steps": "1",
    "arguments.optim": "adamw_torch_fused",
    "arguments.bf16": "False",
    "arguments.fp16": "False",
}


def test_the_job_that_a_run_recorded_is_predicted_beside_the_advice(tmp_path):
    made = Maker(tmp_path / "run")
    made.begin(0)
    for step in range(2):
        made.phase(0, Phase.FORWARD, step, batch={"input_ids": (8, 2048), "labels": (8, 2048)})
        made.step(0, step)
    made.oom(0, Phase.BACKWARD, 2, message=MESSAGE, batch={"input_ids": (8, 2048), "labels": (8, 2048)})
    made.end(0, "oom")
    made.fingerprint(TRAINER)
    found = explain([tmp_path / "run"])
    assert found.plan is not None
    assert {field.path: field.value for field in found.plan.fields}["batch.micro"] == "8"
    assert found.advice is not None


def test_a_run_that_says_too_little_is_not_predicted(tmp_path):
    made = four_ranks(tmp_path / "run")
    made.fingerprint({name: value for name, value in TRAINER.items() if "optim" not in name})
    found = explain([tmp_path / "run"])
    assert found.plan is None
    assert found.advice is not None
