"""A plan does not depend on what was planned before it in the same process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oomph.job.config import from_config
from oomph.job.model import (
    Batch,
    Evaluation,
    Framework,
    Job,
    Lora,
    Method,
    Model,
    Precision,
    Quantization,
)
from oomph.phases import Phase
from oomph.predict.compose.keys import structure_of
from oomph.predict.compose.run import setup_of
from oomph.predict.frameworks import code_for
from oomph.predict.plan import plan

HIDDEN, VOCAB, TOKENS = 256, 32_000, 2 * 128


def _model() -> Model:
    values = {
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": 688,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
    }
    return from_config(values, "a small Llama")


def _prepared(framework: str) -> Job:
    """QLoRA whose other weights prepare_model_for_kbit_training has cast."""
    return Job(
        model=_model(),
        framework=Framework(name=framework),
        method=Method(name="qlora", lora=Lora(), quantization=Quantization(kind="nf4", prepared=True)),
        precision=Precision(weights="bf16", compute="bf16", autocast=True),
        batch=Batch(micro=2, sequence=128),
    )


def _forward(framework: str) -> int:
    return plan(_prepared(framework), replay=False).ranks[0].phases[Phase.FORWARD].allocated_bytes


@pytest.mark.parametrize("first", ["transformers", "trl"])
def test_the_order_of_plans_changes_none(first: str, fresh: Callable[[], None]) -> None:
    alone = {}
    for name in ("transformers", "trl"):
        fresh()
        alone[name] = _forward(name)
    assert alone["transformers"] != alone["trl"], "TRL casts the output layer back, transformers does not"
    fresh()
    second = "trl" if first == "transformers" else "transformers"
    assert {name: _forward(name) for name in (first, second)} == alone


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets all pieces that were played, in effect: keys get other numbers."""
    from oomph.predict.compose import keys

    return keys._NUMBERS.clear


def test_frameworks_and_versions_are_told_apart() -> None:
    job = _prepared("transformers")
    keys = {
        structure_of(setup_of(each, code_for(each)))
        for each in (
            job,
            _prepared("trl"),
            Job(
                model=job.model,
                framework=Framework(name="transformers", versions=(("transformers", "4.57.0"),)),
                method=job.method,
                precision=job.precision,
                batch=job.batch,
            ),
        )
    }
    assert len(keys) == 3


def _kept(framework: str, samples: int) -> int:
    """Bytes of evaluation that gathers all logits."""
    job = Job(
        model=_model(),
        framework=Framework(name=framework),
        precision=Precision(compute="bf16", autocast=True),
        batch=Batch(micro=2, sequence=128),
        evaluation=Evaluation(batch=2, samples=samples, keep_logits=True),
    )
    return plan(job, replay=False).ranks[0].phases[Phase.EVAL].allocated_bytes


@pytest.mark.parametrize(
    ("framework", "item"), [("pytorch", 2), ("transformers", 4)], ids=["a loop", "accelerate"]
)
def test_gathered_logits_under_autocast(framework: str, item: int) -> None:
    """A loop keeps what torch.autocast gives (a trace of one: torch.bfloat16), accelerate casts outputs to fp32. Each
    batch more is kept once, and once in the concatenation."""
    assert _kept(framework, 128) - _kept(framework, 64) == 2 * 32 * TOKENS * VOCAB * item
