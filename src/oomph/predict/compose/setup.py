"""From a job to what is played: its dimensions (setup_shape.py), which program and variant (setup_chosen.py), what each
parameter is (setup_parameters.py), and here what torch.compile and autocast see."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.predict.compose.setup_parameters import Parameters


@dataclass(frozen=True)
class Setup(Parameters):
    """A job with one framework's code, ready to be played."""

    @property
    def widens(self) -> bool:
        """Whether 4-bit layers hand on fp32 that they were given under autocast (widening.py)."""
        quantization = self.job.method.quantization
        return (
            quantization is not None
            and quantization.kind in ("nf4", "fp4", "int8")
            and self.precision.endswith("autocast")
            and self.code.lora == "peft"
        )

    @property
    def compiles_blocks(self) -> bool:
        """Whether torch.compile sees the layers. With PEFT's adapters they are played as they are (an assumption)."""
        return self.job.compile and not (self.job.method.lora is not None and self.code.lora == "peft")

    @property
    def compiles_layers(self) -> bool:
        """Whether layers are played compiled."""
        return self.compiles_blocks and not self.plain_layers

    @property
    def order_decides(self) -> bool:
        """Whether what a layer holds at its peak depends on Inductor's order: where it is recomputed in backward, and
        its tensors exist together. Under torchtitan the checkpoint is within the compiled block, and what it keeps is
        known."""
        outside = self.code.checkpoint_outside_compile
        return self.compiles_blocks and outside and self.job.checkpointing.mode != "none"

    @property
    def compiles_loss(self) -> bool:
        """Whether it sees output layer and loss together."""
        return self.compiles_blocks and self.code.compiled.endswith("and_loss")
