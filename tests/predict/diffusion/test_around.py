"""What scripts have beside the denoiser: sizes against transformers' and diffusers' classes, and when it is there."""

from __future__ import annotations

import msgspec
import pytest

import oomph
from oomph.phases import Phase
from oomph.predict.compose.run import setup_of
from oomph.predict.frameworks import variants
from tests.predict.diffusion.cases import CASES
from tests.tracing.programs import traced

_T5 = {
    "d_model": 4096,
    "d_ff": 10240,
    "d_kv": 64,
    "num_heads": 64,
    "num_layers": 24,
    "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}
_CLIP = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
_OPEN_G = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_attention_heads": 20,
    "projection_dim": 1280,
}
_OPEN_H = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 23, "num_attention_heads": 16}


def _parameters(make) -> int:
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        return sum(each.numel() for each in make().parameters())


def test_text_encoders_are_as_large_as_transformers_classes():
    transformers = pytest.importorskip("transformers")
    from oomph.predict.compose import denoise_around

    def clip(config, kind=transformers.CLIPTextModel):
        return _parameters(lambda: kind(transformers.CLIPTextConfig(**config)))

    t5 = _parameters(lambda: transformers.T5EncoderModel(transformers.T5Config(**_T5)))
    large = clip(_OPEN_G, transformers.CLIPTextModelWithProjection)
    assert clip(_CLIP) == denoise_around._CLIP
    assert clip(_OPEN_H) == denoise_around._OPEN_H
    assert large == denoise_around._OPEN_G
    projected = clip({**_CLIP, "projection_dim": 768}, transformers.CLIPTextModelWithProjection)
    assert projected == denoise_around._CLIP_PROJECTED
    assert t5 == denoise_around._T5


@pytest.mark.parametrize("latents", [4, 16])
def test_autoencoders_are_as_large_as_diffusers_class(latents):
    diffusers = pytest.importorskip("diffusers")
    from oomph.predict.compose import denoise_around

    found = _parameters(
        lambda: diffusers.AutoencoderKL(
            down_block_types=["DownEncoderBlock2D"] * 4,
            up_block_types=["UpDecoderBlock2D"] * 4,
            block_out_channels=[128, 256, 512, 512],
            layers_per_block=2,
            latent_channels=latents,
            use_quant_conv=latents == 4,
            use_post_quant_conv=latents == 4,
        )
    )
    assert denoise_around._AUTOENCODER[latents] == found


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("decodes", [False, True])
def test_autoencoders_work_as_traced(decodes, precision):
    pytest.importorskip("diffusers")
    shape = "2, 16, 64, 64" if decodes else "2, 3, 512, 512"
    program = f"""
        import warnings, diffusers
        warnings.simplefilter("ignore")
        diffusers.utils.logging.set_verbosity_error()
        with torch.device("meta"):
            model = diffusers.AutoencoderKL(
                down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4,
                block_out_channels=[128, 256, 512, 512], layers_per_block=2, latent_channels=16,
                use_quant_conv=False, use_post_quant_conv=False,
            )
        dtype = torch.{"bfloat16" if precision == "bf16" else "float32"}
        model = model.to(dtype).to_empty(device="cuda")
        given = torch.zeros({shape}, device="cuda", dtype=dtype)
        with torch.no_grad():
            if {decodes}:
                model.decode(given / 0.5, return_dict=False)[0]
            else:
                model.encode(given).latent_dist.sample()
    """
    from oomph.predict.compose.denoise import log_of
    from oomph.predict.compose.denoise_around import Autoencoding

    job = next(case for case in CASES if case.name == "flux-lora").job()
    job = msgspec.structs.replace(job, batch=msgspec.structs.replace(job.batch, image_size=512))
    setup = setup_of(job, variants(job)[0])
    log = log_of(Autoencoding(setup, decodes, 2, 16, precision), accumulates=False, grad=False)
    level = most = 0
    for event in log.events:
        level += log.sizes[event] if event >= 0 else -log.sizes[~event]
        most = max(most, level)
    item = 2 if precision == "bf16" else 4
    peak = max(traced(program, gpu="a100-80gb").peak_by_phase.values())
    # cuBLAS's workspace comes with the first matrix product, before the peak or after it.
    workspace = 2 * 4096 * 1024 + 8 * 16 * 1024
    found = most + log.inputs + 83_819_683 * item
    assert found == pytest.approx(peak, rel=0.001) or found + workspace == pytest.approx(peak, rel=0.001)


def _peaks(**settings):
    job = next(case for case in CASES if case.name == "sd15-lora").job()
    plan = oomph.plan(job, settings=settings, replay=False)
    assert not plan.unsupported, plan.unsupported
    [rank] = plan.ranks
    return {phase: peak.allocated_bytes for phase, peak in rank.phases.items()}


def test_text_encoders_are_there_from_load_on():
    alone, beside = _peaks(), _peaks(**{"model.config.pipeline.text_encoders": True})
    # CLIP's text model in bf16
    for phase, size in alone.items():
        assert beside[phase] - size == pytest.approx(123_060_480 * 2, abs=512)


def test_the_autoencoder_works_before_the_denoiser():
    alone, beside = _peaks(), _peaks(**{"model.config.pipeline.vae": True})
    weights = 83_653_863 * 2
    assert beside[Phase.LOAD] - alone[Phase.LOAD] == pytest.approx(weights, abs=512)
    assert beside[Phase.OPTIMIZER] - alone[Phase.OPTIMIZER] == pytest.approx(weights, abs=512)
    # Two images of 512 pixels with 128 channels in bf16: the first residual block has more than two of them at once.
    assert beside[Phase.FORWARD] > alone[Phase.LOAD] + weights + 2 * (2 * 128 * 512 * 512 * 2)


def test_an_average_is_a_copy_of_the_weights():
    job = next(case for case in CASES if case.name == "sd15-full-fp32").job()
    alone = oomph.plan(job, replay=False).ranks[0].phases
    beside = oomph.plan(job, settings={"model.config.pipeline.ema": True}, replay=False).ranks[0].phases
    copy = 859_520_964 * 4
    difference = beside[Phase.BACKWARD].allocated_bytes - alone[Phase.BACKWARD].allocated_bytes
    # 686 parameters, each rounded up to 512 bytes
    assert 0 <= difference - copy <= 686 * 512


def test_validation_decodes_images():
    quiet, looking = _peaks(), _peaks(**{"evaluation.batch": 1})
    assert Phase.EVAL not in quiet
    # One image of 512 pixels: 256 channels of bf16 at full size, in and out of a convolution.
    weights = (123_060_480 + 83_653_863) * 2
    assert looking[Phase.EVAL] > quiet[Phase.LOAD] + weights + 2 * 256 * 512 * 512 * 2


def test_what_is_left_out_is_said():
    job = next(case for case in CASES if case.name == "flux-lora").job()
    plan = oomph.plan(job, settings={"precision.weights": "fp16", "precision.compute": "fp16"}, replay=False)
    assert any("clip in fp16" in each for each in plan.assumptions)
    assert any(each.startswith("Validation images are not planned") for each in plan.assumptions)


def test_refusals_name_what_is_missing():
    job = next(case for case in CASES if case.name == "sd15-lora").job()
    for path, value, word in (
        ("batch.image_size", 520, "520 pixels"),
        ("compile", True, "torch.compile"),
        ("parallel.strategy", "fsdp2_full", "fsdp2_full"),
        ("attention", "eager", "eager"),
        ("model.config.in_channels", 9, "this configuration"),
    ):
        gpus = {"hardware.gpus": 2, "parallel.data": 2} if path.startswith("parallel") else {}
        plan = oomph.plan(job, settings={path: value, **gpus}, replay=False)
        assert not plan.ranks
        assert word in plan.unsupported[0]


def test_other_denoisers_are_refused():
    job = next(case for case in CASES if case.name == "sd15-lora").job()
    model = msgspec.structs.replace(job.model, family="PixArtTransformer2DModel", config=())
    plan = oomph.plan(msgspec.structs.replace(job, model=model), replay=False)
    assert "PixArtTransformer2DModel" in plan.unsupported[0]


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("dit-full", {"batch.image_size": 512}, "images of 512 pixels, for which a DiT of 256 pixels"),
        ("dit-full", {"model.config.pipeline.text_encoders": True}, "reads no text"),
        ("dit-full", {"model.config.out_channels": 4}, "this configuration"),
        ("dit-full", {"hardware.gpus": 2, "parallel.data": 2, "parallel.strategy": "zero2"}, "under zero2"),
        ("sd3-lora-recomputed", {"batch.image_size": 1552}, "beyond its 1536 pixels of positions"),
        ("sd3-lora-recomputed", {"model.config.in_channels": 32}, "this configuration"),
        ("sd35-medium-lora", {"model.config.num_layers": 3}, "this configuration"),
        ("flux-lora", {"model.config.out_channels": 16}, "this configuration"),
        ("flux-lora", {"model.config.num_single_layers": 0}, "this configuration"),
        ("dit-full", {"model.config.num_layers": 0}, "this configuration"),
        ("dit-full", {"model.config.attention_head_dim": 60}, "this configuration"),
    ],
)
def test_transformers_that_were_not_recorded_are_refused(name, settings, words):
    job = next(case for case in CASES if case.name == name).job()
    plan = oomph.plan(job, settings=settings, replay=False)
    assert not plan.ranks
    assert words in plan.unsupported[0]


@pytest.mark.parametrize(("name", "count"), [("dit-full", 16**2), ("sd35-medium-lora", 128**2)])
def test_positions_are_resident(name, count):
    """A buffer of the weights' type: [1, positions, hidden]."""
    job = next(case for case in CASES if case.name == name).job()
    hidden, item = {"dit-full": (8 * 72, 4), "sd35-medium-lora": (8 * 64, 2)}[name]
    plan = oomph.plan(job, replay=False)
    peak = plan.ranks[0].phases[Phase.LOAD]
    [term] = [each for each in peak.terms if each.name == "positions of patches"]
    assert term.bytes == count * hidden * item
