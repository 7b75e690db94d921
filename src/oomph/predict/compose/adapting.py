"""Which adapters a job's linear layers have."""

from __future__ import annotations

from oomph.predict.compose.setup import Setup
from oomph.predict.engine.adapters import PeftAdapters
from oomph.predict.engine.dora import DoraAdapters, DoraAge
from oomph.predict.engine.fused_adapters import FusedAdapters
from oomph.predict.frameworks.versions import below


def adapters_for(setup: Setup) -> PeftAdapters | None:
    """PEFT's, where the programs have none of their own; None without adapters."""
    lora = setup.job.method.lora
    if lora is None or setup.code.lora != "peft":
        return None
    kind = DoraAdapters if lora.dora else FusedAdapters if "lora" in setup.code.fusions else PeftAdapters
    made = kind(
        lora.rank,
        setup.adapters_dtype,
        lora.dropout,
        setup.adapts_module,
        setup.quantizes_module,
        casts=setup.code.lora_casts_input,
    )
    quantization = setup.job.method.quantization
    made.clones = quantization is None or quantization.kind != "int8"
    if isinstance(made, DoraAdapters):
        made.age = _age(setup)
    return made


def _age(setup: Setup) -> DoraAge:
    """Which of PEFT's codes for DoRA runs."""
    if below(setup.job.framework, "peft", 0, 12):
        return DoraAge.PRODUCT
    return DoraAge.IDENTITY if below(setup.job.framework, "peft", 0, 14) else DoraAge.CURRENT
