"""What diffusers' scripts have on the GPU beside the denoiser: text encoders, and the autoencoder, which makes latents
of images in each step and images of latents in validation. docs/diffusion.md.

A job says that they are there with `model.config.pipeline.text_encoders` and `model.config.pipeline.vae`. Sources:
examples/dreambooth/train_dreambooth_lora_flux.py (its list `text_encoders` refers to them to the end; validation loads
another copy), train_dreambooth_lora_sd3.py and examples/text_to_image/train_text_to_image_lora_sdxl.py (the autoencoder
is fp32).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from oomph.errors import UsageError
from oomph.job.denoising import DIT, FLUX, SD3, UNET
from oomph.job.families import major_of
from oomph.job.families.build import Reader
from oomph.predict.compose.denoise_setup import Denoising
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.scope import Weight
from oomph.predict.programs.parts import DenoiserFile, DenoiserVariant, load_parts

#: Parameters: CLIP's text model (ViT-L/14; SD3's with a projection), T5's encoder (v1.1 XXL), and by the width of a
#: UNet's text those of Stable Diffusion 1.5 (CLIP), 2.1 (OpenCLIP ViT-H, of which it has 23 layers) and XL (CLIP and
#: OpenCLIP ViT-bigG).
_CLIP, _T5, _OPEN_H, _OPEN_G = 123_060_480, 4_762_310_656, 340_387_840, 694_659_840
_CLIP_PROJECTED = _CLIP + 768 * 768
_ENCODERS = {768: _CLIP, 1024: _OPEN_H, 2048: _CLIP + _OPEN_G}
#: AutoencoderKL with latents of 4 and of 16 channels.
_AUTOENCODER = {4: 83_653_863, 16: 83_819_683}
_XL_TEXT = 2048
_HALF = ("bf16", "fp16")
_GRAIN = 64


@dataclass(frozen=True)
class Around:
    """The parts of a pipeline beside its denoiser."""

    denoising: Denoising

    @property
    def _reader(self) -> Reader:
        return Reader(self.denoising.setup.job.model)

    @property
    def family(self) -> str:
        """The denoiser's class."""
        return self.denoising.setup.job.model.family

    @property
    def encodes_text(self) -> bool:
        """Text encoders are on the GPU while training."""
        return self._reader.switch("pipeline.text_encoders")

    @property
    def encodes_images(self) -> bool:
        """The autoencoder is on the GPU while training, and makes each batch's latents."""
        return self._reader.switch("pipeline.vae")

    @property
    def averages(self) -> bool:
        """An average of the weights is kept beside them (--use_ema)."""
        return self._reader.switch("pipeline.ema")

    @property
    def average_sizes(self) -> list[int]:
        """Bytes of each averaged parameter: EMAModel clones them as they are."""
        units = self.denoising.units.units
        return [
            each.resident_bytes for unit in units for each in unit.parameters if ".lora_" not in each.name
        ]

    @property
    def _item(self) -> int:
        """Bytes of an element of frozen parts: the scripts' weight_dtype."""
        return 2 if self.denoising.setup.job.precision.compute in _HALF else 4

    @property
    def text_bytes(self) -> int:
        """Bytes of the text encoders; DiT has none."""
        if self.family == UNET:
            return _ENCODERS[self.denoising.dims["text"]] * self._item
        return {FLUX: _CLIP + _T5, SD3: _CLIP_PROJECTED + _OPEN_G + _T5, DIT: 0}[self.family] * self._item

    @property
    def loaded_text_bytes(self) -> int:
        """Bytes of those that validation loads: the script of SD3's adapters leaves T5 in the type that transformers
        loads it in, until 5 fp32, since then that of the file (fp16)."""
        job = self.denoising.setup.job
        if self.family != SD3 or job.method.name == "full":
            return self.text_bytes
        loaded = 4 if major_of(job.framework) == 4 else 2
        return self.text_bytes + _T5 * (loaded - self._item)

    @property
    def loads_text_again(self) -> bool:
        """Validation loads text encoders, whatever is there: dreambooth's scripts of transformers."""
        return self.family in (FLUX, SD3)

    @property
    def latents(self) -> int:
        """Channels of latents."""
        return 16 if self.family in (FLUX, SD3) else 4

    @property
    def vae_precision(self) -> str:
        """That of the autoencoder: fp32 for XL, whose own overflows in half precision, and for SD3."""
        wide = self.family == SD3 or (self.family == UNET and self.denoising.dims["text"] == _XL_TEXT)
        return "fp32" if wide or self._item == 4 else "bf16"

    @property
    def vae_bytes(self) -> int:
        """Bytes of the autoencoder."""
        return _AUTOENCODER[self.latents] * (4 if self.vae_precision == "fp32" else 2)

    def autoencoder(self, decodes: bool, images: int) -> Autoencoding:
        """Its program for so many images."""
        return Autoencoding(self.denoising.setup, decodes, images, self.latents, self.vae_precision)

    def validating(self, images: int) -> Denoising:
        """The denoiser for so many images: all but FLUX see each with and without its prompt or class (classifier-free
        guidance)."""
        setup = self.denoising.setup
        micro = images if self.family == FLUX else 2 * images
        sequence = setup.job.evaluation.sequence or setup.job.batch.sequence
        batch = msgspec.structs.replace(setup.job.batch, micro=micro, sequence=sequence)
        job = msgspec.structs.replace(setup.job, batch=batch)
        return replace(self.denoising, setup=Setup(job, setup.code, setup.gpu, setup.torch))


@dataclass(frozen=True)
class Autoencoding(Denoising):
    """The autoencoder, played as a denoiser's parts are. `decodes`: latents become images; else images latents."""

    decodes: bool
    images: int
    latents: int
    precision: str

    @cached_property
    def file(self) -> DenoiserFile:
        """The recorded programs."""
        found = load_parts("diffusers-vae")
        assert found is not None
        return found

    @cached_property
    def dims(self) -> dict[str, int]:
        """What sizes are made of. Raises UsageError for images whose sides are no multiples of 64."""
        side, rest = divmod(self.setup.job.batch.image_size or 0, _GRAIN)
        if rest:
            raise UsageError(
                f"unsupported: an autoencoder of images whose sides {_GRAIN} pixels do not divide."
            )
        return {"b": self.images, "side": side}

    @cached_property
    def variant(self) -> DenoiserVariant:
        """The recorded way."""
        return next(
            each
            for each in self.file.variants
            if each.precision == self.precision
            and each.more["latents"] == self.latents
            and each.more["decodes"] == self.decodes
        )

    @property
    def widens(self) -> bool:
        """It has no 4-bit layers."""
        return False

    @property
    def autocast(self) -> bool:
        """It runs outside of autocast."""
        return False

    @cached_property
    def counts(self) -> dict[str, int]:
        """It has no stacks."""
        return {}

    def weight(self, name: str) -> Weight:
        """Nothing trains."""
        del name
        return Weight(trainable=False)
