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
    Quantization,
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
    quantized: bool = False
    efficient: bool = False

    def job(self) -> Job:
        """For the plan."""
        low = self.precision.startswith("bf16")
        lora = Lora(rank=8, targets=self.lora, dtype="bf16" if low else "fp32") if self.lora else None
        method = Method(name="lora", lora=lora) if lora else Method()
        if self.quantized:
            method = Method(name="qlora", lora=lora, quantization=Quantization(kind="nf4"))
        return Job(
            model=from_config({"_class_name": self.family, **self.config}, self.name),
            method=method,
            precision=PRECISIONS[self.precision],
            batch=Batch(
                micro=self.batch,
                sequence=self.tokens,
                image_size=self.image,
                accumulation=self.accumulation,
            ),
            optimizer=Optimizer(),
            attention="sdpa_efficient" if self.efficient else "sdpa",
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
            torch.backends.cuda.enable_flash_sdp(not {self.efficient})
            low, cast = {self.precision.startswith("bf16")}, {self.precision.endswith("autocast")}
            dtype = torch.bfloat16 if low else torch.float32
            with torch.device("meta"):
                model = diffusers.{self.family}(**{self.config!r})
            model.to(dtype).to_empty(device="cpu" if {self.quantized} else "cuda").train()
            if {self.quantized}:
                import bitsandbytes
                for name, module in list(model.named_modules()):
                    if isinstance(module, torch.nn.Linear):
                        made = bitsandbytes.nn.Linear4bit(
                            module.in_features, module.out_features, bias=module.bias is not None,
                            compute_dtype=torch.bfloat16, compress_statistics=False, quant_type="nf4"
                        )
                        if made.bias is not None:
                            made.bias.data = made.bias.data.to(dtype)
                        parent, _, last = name.rpartition(".")
                        setattr(model.get_submodule(parent), last, made)
                model.to("cuda")
                model.is_loaded_in_4bit = True
            if {self.lora!r}:
                import peft
                model.requires_grad_(False)
                adapters = peft.LoraConfig(r=8, lora_alpha=8, target_modules={list(self.lora)!r})
                peft.inject_adapter_in_model(adapters, model)  # as add_adapter does, which DiT has not
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
        return out, target, loss, noise, packed
"""
_UNET_LOOP = """
    latents = torch.zeros(batch, 4, side, side, device="cuda", dtype=dtype)
    prompts = torch.zeros(batch, tokens, model.config.cross_attention_dim, device="cuda", dtype=dtype)
    more = {}
    if model.config.addition_embed_type == "text_time":
        pooled = torch.zeros(batch, 1280, device="cuda", dtype=dtype)
        more["added_cond_kwargs"] = dict(
            text_embeds=pooled, time_ids=torch.zeros(batch, 6, device="cuda", dtype=dtype)
        )
    scheduler = diffusers.DDPMScheduler(beta_schedule="scaled_linear")

    def iteration():
        noise = torch.randn_like(latents)
        timesteps = torch.randint(0, 1000, (batch,), device="cuda").long()
        noisy = scheduler.add_noise(latents, noise, timesteps)
        out = call(noisy, timesteps, prompts, return_dict=False, **more)
        loss = torch.nn.functional.mse_loss(out.float(), noise.float(), reduction="mean")
        return out, noisy, loss, noise
"""
_DIT_LOOP = """
    latents = torch.zeros(batch, 4, side, side, device="cuda", dtype=dtype)
    labels = torch.zeros(batch, device="cuda", dtype=torch.int64)
    scheduler = diffusers.DDPMScheduler(beta_schedule="linear")

    def iteration():
        noise = torch.randn_like(latents)
        timesteps = torch.randint(0, 1000, (batch,), device="cuda").long()
        noisy = scheduler.add_noise(latents, noise, timesteps)
        out = call(noisy, timestep=timesteps, class_labels=labels, return_dict=False)
        loss = torch.nn.functional.mse_loss(out.chunk(2, dim=1)[0].float(), noise.float(), reduction="mean")
        return out, noisy, loss, noise
"""
_SD3_LOOP = """
    latents = torch.zeros(batch, 16, side, side, device="cuda", dtype=dtype)
    prompts = torch.zeros(batch, tokens, model.config.joint_attention_dim, device="cuda", dtype=dtype)
    pooled = torch.zeros(batch, model.config.pooled_projection_dim, device="cuda", dtype=dtype)

    def iteration():
        noise = torch.randn_like(latents)
        timesteps = torch.rand(batch).to("cuda")
        sigmas = torch.rand(batch).to("cuda", dtype)[:, None, None, None]
        noisy = (1.0 - sigmas) * latents + sigmas * noise
        out = call(
            hidden_states=noisy, timestep=timesteps, encoder_hidden_states=prompts, pooled_projections=pooled,
            return_dict=False,
        )
        out = out * (-sigmas) + noisy
        weighting = torch.ones_like(sigmas)
        loss = torch.mean((weighting.float() * (out.float() - latents.float()) ** 2).reshape(batch, -1), 1)
        return out, noisy, loss.mean(), noise
"""
_STEPS = """
    for _ in range(2):
        for _ in range(accumulation):
            held = iteration()
            held[2].backward()
        optimizer.step()
        optimizer.zero_grad()
"""
LOOPS = {
    "FluxTransformer2DModel": _FLUX_LOOP + _STEPS,
    "UNet2DConditionModel": _UNET_LOOP + _STEPS,
    "DiTTransformer2DModel": _DIT_LOOP + _STEPS,
    "SD3Transformer2DModel": _SD3_LOOP + _STEPS,
}


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


SD15 = {"cross_attention_dim": 768, "attention_head_dim": 8}
SD21 = {
    "cross_attention_dim": 1024,
    "attention_head_dim": [5, 10, 20, 20],
    "use_linear_projection": True,
}
SDXL = {
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [320, 640, 1280],
    "attention_head_dim": [5, 10, 20],
    "cross_attention_dim": 2048,
    "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}


def _unet(name: str, config: dict[str, Any], **more: Any) -> Case:
    return Case(name, "UNet2DConditionModel", config, **{"image": 512, "tokens": 77, **more})


DIT = {
    "num_layers": 4,
    "num_attention_heads": 8,
    "attention_head_dim": 72,
    "out_channels": 8,
    "num_embeds_ada_norm": 1000,
}
SD3 = {
    "num_layers": 5,
    "attention_head_dim": 64,
    "num_attention_heads": 8,
    "caption_projection_dim": 512,
    "joint_attention_dim": 512,
    "pooled_projection_dim": 256,
}
SD35 = {**SD3, "qk_norm": "rms_norm", "dual_attention_layers": [0, 1], "pos_embed_max_size": 128}


def _dit(name: str, **more: Any) -> Case:
    return Case(name, "DiTTransformer2DModel", DIT, **{"batch": 16, **more})


def _sd3(name: str, config: dict[str, Any], **more: Any) -> Case:
    return Case(name, "SD3Transformer2DModel", config, **{"image": 512, **more})


CASES = (
    _flux("flux-lora", lora=ATTENTION),
    _flux("flux-lora-bf16-one", lora=ATTENTION, precision="bf16", batch=1, config={"guidance_embeds": False}),
    _flux("flux-lora-recomputed", lora=(*ATTENTION, "ff.net.0.proj", "ff.net.2"), recomputed=True, image=512),
    _flux("flux-lora-accumulated", lora=ATTENTION, batch=1, recomputed=True, accumulation=2),
    _flux("flux-nf4", lora=ATTENTION, quantized=True, precision="bf16"),
    _flux("flux-nf4-autocast", lora=ATTENTION, quantized=True),
    _flux("flux-nf4-recomputed", lora=ATTENTION, quantized=True, recomputed=True, image=512),
    _flux("flux-full", precision="fp32-autocast"),
    _flux("flux-full-bf16", precision="bf16", batch=1, image=512),
    _flux("flux-full-fp32", precision="fp32", tokens=128),
    _flux("flux-full-recomputed", precision="fp32-autocast", recomputed=True, batch=1, image=512),
    _flux("flux-full-bf16-recomputed", precision="bf16", recomputed=True),
    _dit("dit-full", precision="fp32-autocast"),
    _dit("dit-full-recomputed", precision="fp32-autocast", recomputed=True, accumulation=2),
    _dit("dit-nf4-autocast", lora=("to_q", "to_v", "ff.net.2"), quantized=True),
    _sd3("sd3-lora-recomputed", SD3, lora=ATTENTION, recomputed=True, batch=1),
    _sd3("sd35-large-full", {**SD3, "qk_norm": "rms_norm"}, precision="fp32-autocast", efficient=True),
    _sd3("sd35-medium-lora", SD35, lora=ATTENTION),
    _unet("sd15-lora", SD15, lora=ATTENTION),
    _unet("sd15-full-recomputed", SD15, precision="fp32-autocast", recomputed=True),
    _unet("sd15-full-fp32", SD15, precision="fp32", batch=1),
    _unet("sdxl-lora-recomputed", SDXL, lora=ATTENTION, recomputed=True, image=1024, batch=1),
    _unet("sdxl-full-bf16", SDXL, precision="bf16", image=768),
)
