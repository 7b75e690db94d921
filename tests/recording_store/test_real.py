"""Real recordings held against each other: equal ones differ in nothing, and what was planted is found."""

from __future__ import annotations

import oomph
from oomph.diagnose.runs.diff import diff
from oomph.diagnose.runs.facts import facts_of
from oomph.diagnose.runs.model import RunFacts, Suspicion
from oomph.evidence.run.read import read_run
from oomph.report.runs.text import RunsOptions, diff_text

#: Widths of the model: 64 x 256 and 256 x 64 weights with their biases.
WIDTH, HIDDEN = 64, 256
PARAMETERS = WIDTH * HIDDEN + HIDDEN + HIDDEN * WIDTH + WIDTH


def train(folder, rows: int, fused: bool = False, **arguments: object) -> RunFacts:
    """Six steps on the CPU, counted as if it were a card."""
    import torch

    from oomph.probe.choose import device

    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, WIDTH)
    )
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    given = {"batch_size": rows, "seed": 1, **arguments}
    with oomph.record(
        model=model, optimizer=optimizer, run_dir=folder, arguments=given, warn=False, device=device("cpu")
    ):
        for _ in range(6):
            model(torch.ones(rows, WIDTH)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return facts_of(read_run(folder))


def test_real_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("OOMPH_RUN_DIR", raising=False)
    # In no checkout of git, whose files may change meanwhile.
    monkeypatch.chdir(tmp_path)
    runs = [train(tmp_path / f"equal-{number}", 64) for number in range(3)]
    larger = train(tmp_path / "larger", 256)
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:128")
    other = train(tmp_path / "other", 64)

    equal = diff(runs[2], runs[:2])
    assert [each.change.key for each in equal.suspects if each.suspicion >= Suspicion.POSSIBLE] == []
    assert "no number of memory differs by more than 1 %" in equal.notes

    found = diff(larger, runs)
    assert found.suspects[0].change.key == "arguments.batch_size"
    assert found.suspects[0].suspicion is Suspicion.EXPLAINS
    kept = next(each for each in found.memory if each.key == "forward.kept")
    # What ReLU keeps, 256 floats a row, and the result of the first layer where it is kept apart.
    assert kept.difference is not None
    assert kept.difference >= (256 - 64) * HIDDEN * 4
    assert "has a peak of" in diff_text(found, RunsOptions()) or "the highest peak is" in diff_text(
        found, RunsOptions()
    )

    planted = diff(other, runs)
    assert planted.suspects[0].change.key == "environment.PYTORCH_ALLOC_CONF"
    states = next(each for each in planted.memory if each.key == "alive.added")
    # AdamW's two moments in fp32; its step counts are a few bytes each.
    assert states.before is not None
    assert 8 * PARAMETERS <= states.before <= 8 * PARAMETERS * 1.05
