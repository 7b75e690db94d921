"""What the plans of two runs' jobs say: the same as plans of the jobs that the runs were."""

from __future__ import annotations

import oomph
from oomph.diagnose.runs.worth import planned
from oomph.evidence.run.read import read_run
from tests.recording_store.fakes import write_run

GPT2 = {
    "model.id": "openai-community/gpt2",
    "model.parameters": "124439808",
    "model.trainable": "124439808",
    "gpu.known_as": "a100-40gb",
}


def write(folder, number: int, rows: int, **settings: str):
    changed = {**GPT2, "arguments.per_device_train_batch_size": str(rows), **settings}
    return read_run(write_run(folder, number, rows=rows, length=512, world=1, settings=changed))


def test_both_jobs_are_planned(tmp_path):
    found = planned(write(tmp_path, 1, 8), write(tmp_path, 0, 4))
    expected = [
        oomph.plan(
            "gpt2",
            settings={"batch.micro": rows, "batch.sequence": 512, "framework.versions": _versions()},
            replay=False,
        )
        for rows in (4, 8)
    ]
    assert found.why == ""
    assert found.before_bytes == expected[0].worst.peak.allocated_bytes
    assert found.after_bytes == expected[1].worst.peak.allocated_bytes
    phases = {name: (before, after) for name, before, after in found.phases}
    assert phases["load"][0] == phases["load"][1]
    assert phases["backward"][1] > phases["backward"][0]


def _versions() -> tuple[tuple[str, str], ...]:
    return (("peft", "0.14.0"), ("torch", "2.6.0"), ("transformers", "4.48.1"))


def test_why_there_is_no_plan(tmp_path):
    known = write(tmp_path, 0, 4)
    found = planned(write(tmp_path, 1, 4, **{"model.id": "nobody/knows-it"}), known)
    assert found.before_bytes is None
    assert "does not say which model it trains" in found.why
    assert "name the job" not in found.why
