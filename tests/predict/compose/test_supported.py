"""What is refused by name rather than left out of the sum."""

from __future__ import annotations

import oomph


def test_gradients_wider_than_the_weights_are_refused() -> None:
    """PyTorch gives a gradient its parameter's type; kept in fp32 beside bf16 weights, it takes two bytes more."""
    settings: dict[str, object] = {"precision.weights": "bf16", "precision.grads": "fp32"}
    plan = oomph.plan("gpt2", settings=settings, replay=False)
    assert plan.unsupported[0].startswith("gradients kept in fp32 beside bf16 weights")
    assert not plan.ranks
    adapters = {**settings, "method.name": "lora", "method.lora.rank": 8, "precision.compute": "bf16"}
    assert oomph.plan("Qwen2.5-0.5B", settings=adapters, replay=False).ranks


def test_what_is_played_in_part_is_said() -> None:
    settings: dict[str, object] = {"parallel.strategy": "fsdp1_full_shard", "batch.packed": True}
    told = " ".join(oomph.plan("gpt2", gpu="h100x8", settings=settings, replay=False).assumptions)
    assert "Packed samples are planned as one" in told
    assert "Without limit_all_gathers" not in told
    settings["parallel.limit_all_gathers"] = False
    told = " ".join(oomph.plan("gpt2", gpu="h100x8", settings=settings, replay=False).assumptions)
    assert "Without limit_all_gathers" in told
    settings |= {"evaluation.batch": 2, "evaluation.generate": 8}
    told = " ".join(oomph.plan("gpt2", gpu="h100x8", settings=settings, replay=False).assumptions)
    assert "tokens chosen without top-k or top-p" in told
