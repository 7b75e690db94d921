"""How many parameters a plan says that there are, and that train."""

from __future__ import annotations

import oomph


def test_all_parameters_train_whichever_way_they_are_divided() -> None:
    """8,030,261,248: the count that Llama 3.1 8B's model card gives with 8B, and safetensors' index exactly."""
    for settings in ({}, {"parallel.tensor": 8, "hardware.gpus": 8}):
        plan = oomph.plan("meta-llama/Llama-3.1-8B", settings=settings, replay=False)
        assert (plan.parameters, plan.trainable) == (8_030_261_248, 8_030_261_248)
