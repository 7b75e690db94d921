"""What is compared: diffusers' own class in a traced loop as the scripts have it, and the plan of the same job."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

from oomph.hardware.names import gpu as gpu_named
from oomph.job.config import from_config
from oomph.job.model import (
    Batch,
    Checkpointing,
    Framework,
    Hardware,
    Job,
    Lora,
    Method,
    Optimizer,
    Precision,
)
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.tracing.programs import traced

ATTENTION = ("to_k", "to_q", "to_v", "to_out.0")
FLUX = {
    "num_layers": 2,
    "num_single_layers": 4,
    "attention_head_dim": 64,
    "num_attention_heads": 8,
    "joint_attention_dim": 256,
    "pooled_projection_dim": 96,
    "in_channels": 64,
    "guidance_embeds": True,
    "axes_dims_rope": [8, 28, 28],
}
PRECISIONS = {
    "fp32": Precision(),
    "bf16": Precision(weights="bf16", compute="bf16"),
    "bf16-autocast": Precision(weights="bf16", compute="bf16", autocast=True),
    "fp32-autocast": Precision(weights="fp32", compute="bf16", autocast=True),
}


@dataclass(frozen=True)
class Case:
    """A set-up; `script`: the lines that make `latents`' batch and run the loop, of LOOPS."""

    name: str
    family: str
    config: dict[str, Any] = field(hash=False)
    batch: int = 2
    image: int = 256
    tokens: int = 96
    precision: str = "bf16-autocast"
    lora: tuple[str, ...] = ()
    recomputed: bool = False
    accumulation: int = 1

    def job(self) -> Job:
        """For the plan."""
        low = self.precision.startswith("bf16")
        lora = Lora(rank=8, targets=self.lora, dtype="bf16" if low else "fp32") if self.lora else None
        return Job(
            model=from_config({"_class_name": self.family, **self.config}, self.name),
            method=Method(name="lora", lora=lora) if lora else Method(),
            precision=PRECISIONS[self.precision],
            batch=Batch(
                micro=self.batch,
                sequence=self.tokens,
                image_size=self.image,
                accumulation=self.accumulation,
            ),
            optimizer=Optimizer(),
            checkpointing=Checkpointing(mode="full" if self.recomputed else "none"),
            framework=Framework(name="diffusers", versions=(("torch", "2.13.0"),)),
            hardware=Hardware(gpu=gpu_named("a100-80gb").short_name),
        )

    def program(self) -> str:
        """For PyTorch: two steps in a loop as the script's."""
        return textwrap.dedent(f"""
            import warnings, diffusers, torch.nn.init
            warnings.simplefilter("ignore")
            diffusers.utils.logging.set_verbosity_error()
            low, cast = {self.precision.startswith("bf16")}, {self.precision.endswith("autocast")}
            dtype = torch.bfloat16 if low else torch.float32
            model = diffusers.{self.family}(**{self.config!r})
            model.to("cuda", dtype=dtype).train()
            if {self.lora!r}:
                import peft
                model.requires_grad_(False)
                model.add_adapter(peft.LoraConfig(r=8, lora_alpha=8, target_modules={list(self.lora)!r}))
            if {self.recomputed}:
                model.enable_gradient_checkpointing()
            optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
            batch, side, tokens = {self.batch}, {self.image} // 8, {self.tokens}

            def call(*args, **kwargs):
                if not cast:
                    return model(*args, **kwargs)[0]
                with torch.autocast("cuda", torch.bfloat16):
                    out = model(*args, **kwargs)
                return out[0].float()
        """) + textwrap.dedent(LOOPS[self.family])


_FLUX_LOOP = """
    channels = model.config.in_channels // 4
    inputs = dict(
        model_input=torch.zeros(batch, channels, side, side, device="cuda", dtype=dtype),
        prompts=torch.zeros(batch, tokens, model.config.joint_attention_dim, device="cuda", dtype=dtype),
        pooled=torch.zeros(batch, model.config.pooled_projection_dim, device="cuda", dtype=dtype),
        ids=torch.zeros(tokens, 3, device="cuda", dtype=dtype),
    )
    Pipe = diffusers.FluxPipeline

    def iteration():
        latents = inputs["model_input"]
        ids = Pipe._prepare_latent_image_ids(batch, side // 2, side // 2, "cuda", dtype)
        noise = torch.randn_like(latents)
        sigmas = torch.rand(batch).to("cuda", dtype)[:, None, None, None]
        noisy = (1.0 - sigmas) * latents + sigmas * noise
        packed = Pipe._pack_latents(noisy, batch, channels, side, side)
        guidance = torch.tensor([1.0], device="cuda").expand(batch) if model.config.guidance_embeds else None
        out = call(
            hidden_states=packed, timestep=torch.rand(batch).to("cuda"), guidance=guidance,
            pooled_projections=inputs["pooled"], encoder_hidden_states=inputs["prompts"],
            txt_ids=inputs["ids"], img_ids=ids, return_dict=False,
        )
        out = Pipe._unpack_latents(out, side * 8, side * 8, 8)
        target = noise - latents
        loss = torch.mean(((out.float() - target.float()) ** 2).reshape(batch, -1), 1).mean()
        return out, target, loss

    for _ in range(2):
        for _ in range(accumulation):
            out, target, loss = iteration()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
LOOPS = {"FluxTransformer2DModel": _FLUX_LOOP}


def expected(case: Case) -> dict[str, int]:
    """Peaks of the trace by phase."""
    program = f"accumulation = {case.accumulation}\n{case.program()}"
    return dict(traced(program, gpu="a100-80gb").peak_by_phase)


def found(case: Case) -> dict[str, int]:
    """Peaks of the plan by phase."""
    its, sink = case.job(), PeakSink()
    compose(setup_of(its, variants(its)[0]), sink)
    return {phase.value: peak.bytes for phase, peak in sink.peaks().items()}


def _flux(name: str, **more: Any) -> Case:
    return Case(name, "FluxTransformer2DModel", {**FLUX, **more.pop("config", {})}, **more)


CASES = (
    _flux("flux-lora", lora=ATTENTION),
    _flux("flux-lora-bf16-one", lora=ATTENTION, precision="bf16", batch=1, config={"guidance_embeds": False}),
    _flux("flux-lora-recomputed", lora=(*ATTENTION, "ff.net.0.proj", "ff.net.2"), recomputed=True, image=512),
    _flux("flux-lora-accumulated", lora=ATTENTION, batch=1, recomputed=True, accumulation=2),
    _flux("flux-full", precision="fp32-autocast"),
    _flux("flux-full-bf16", precision="bf16", batch=1, image=512),
    _flux("flux-full-fp32", precision="fp32", tokens=128),
    _flux("flux-full-recomputed", precision="fp32-autocast", recomputed=True, batch=1, image=512),
    _flux("flux-full-bf16-recomputed", precision="bf16", recomputed=True),
)
