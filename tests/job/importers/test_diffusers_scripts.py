"""Command lines of diffusers' training scripts: what they train, in which types, and what they keep beside it."""

from __future__ import annotations

from oomph.job.importers import merge, read
from oomph.job.model import Job

_FLUX = """
accelerate launch --mixed_precision=bf16 train_dreambooth_lora_flux.py \\
  --pretrained_model_name_or_path=black-forest-labs/FLUX.1-dev --instance_data_dir=dog --output_dir=out \\
  --resolution=512 --train_batch_size=1 --optimizer=AdamW --use_8bit_adam --rank=16 --gradient_checkpointing
"""


def _job(text: str) -> Job:
    return merge(read(text))[0]


def test_frozen_weights_are_in_the_mixed_type():
    job = _job(_FLUX)
    assert job.method.name == "lora"
    assert (job.method.lora.rank, job.method.lora.dtype) == (16, "bf16")
    assert (job.precision.weights, job.precision.compute, job.precision.autocast) == ("bf16", "bf16", True)
    assert (job.optimizer.impl, job.optimizer.state) == ("bnb", "int8")
    assert job.batch.image_size == 512
    assert job.checkpointing.mode == "full"


def test_text_encoders_and_autoencoder_stay_where_the_script_keeps_them():
    job = _job(_FLUX)
    assert job.model.get("pipeline.text_encoders") is True
    assert job.model.get("pipeline.vae") is True
    cached = _job(_FLUX.replace("--rank=16", "--rank=16 --cache_latents"))
    assert cached.model.get("pipeline.vae") is None
    # embeddings come from a file of their own
    miniature = _job(_FLUX.replace("lora_flux.py", "lora_flux_miniature.py"))
    assert miniature.model.get("pipeline.text_encoders") is None


def test_whole_models_stay_fp32_with_an_average():
    job = _job("""
    accelerate launch --mixed_precision=bf16 train_text_to_image.py --use_ema --resolution=512 \\
      --pretrained_model_name_or_path=stable-diffusion-v1-5/stable-diffusion-v1-5 --train_batch_size=1 \\
      --gradient_checkpointing --max_train_steps=15000
    """)
    assert job.method.name == "full"
    assert (job.precision.weights, job.precision.compute, job.precision.autocast) == ("fp32", "bf16", True)
    assert job.model.get("pipeline.ema") is True


def test_lora_scripts_have_adapters_of_rank_four_where_nothing_is_said():
    job = _job("""
    accelerate launch --mixed_precision=fp16 train_text_to_image_lora.py --resolution=512 \\
      --pretrained_model_name_or_path=stable-diffusion-v1-5/stable-diffusion-v1-5 --train_batch_size=1
    """)
    assert job.method.name == "lora"
    assert (job.method.lora.rank, job.method.lora.dtype) == (4, "fp32")
    assert job.precision.weights == "fp16"


def test_sd3_script_lets_text_encoders_go_where_there_is_one_prompt():
    text = """
    accelerate launch --mixed_precision=fp16 train_dreambooth_lora_sd3.py --resolution=512 --train_batch_size=1 \\
      --pretrained_model_name_or_path=stabilityai/stable-diffusion-3-medium-diffusers --instance_prompt=dog
    """
    job = _job(text)
    assert job.model.family == "SD3Transformer2DModel"
    assert job.model.get("pipeline.text_encoders") is None
    assert job.model.get("pipeline.vae") is True
    captions = _job(text.replace("--instance_prompt=dog", "--instance_prompt=dog --caption_column=text"))
    assert captions.model.get("pipeline.text_encoders") is True


def test_validation_prompts_make_one_image_at_a_time():
    assert _job(_FLUX).evaluation.batch is None
    job = _job(_FLUX.replace("--rank=16", "--rank=16 --validation_prompt=dog --num_validation_images=4"))
    assert job.evaluation.batch == 1


def test_class_images_are_as_many_again():
    job = _job(_FLUX.replace("--rank=16", "--rank=16 --with_prior_preservation --class_data_dir=dogs"))
    assert job.batch.micro == 2


def test_tokens_are_those_of_t5_and_in_sd3_of_clip_too():
    assert _job(_FLUX.replace("--rank=16", "--rank=16 --max_sequence_length=256")).batch.sequence == 256
    text = "python train_dreambooth_lora_sd3.py --max_sequence_length=256 --rank=4"
    assert (
        _job(f"{text} --pretrained_model_name_or_path=stabilityai/stable-diffusion-3-medium").batch.sequence
        == 333
    )


def test_defaults_are_the_scripts_own():
    sdxl = _job("""
    accelerate launch train_text_to_image_lora_sdxl.py --lora_dropout=0.1 \\
      --pretrained_model_name_or_path=stabilityai/stable-diffusion-xl-base-1.0
    """)
    assert (sdxl.batch.micro, sdxl.batch.image_size, sdxl.method.lora.dropout) == (16, 1024, 0.1)
    flux = _job(_FLUX.replace("--resolution=512 --train_batch_size=1", "").replace("_lora_flux", "_flux"))
    assert (flux.batch.micro, flux.batch.image_size, flux.batch.sequence) == (4, 512, 77)
