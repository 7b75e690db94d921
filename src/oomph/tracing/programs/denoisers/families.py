"""The families of denoisers that programs are made for, and the ways in which each is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oomph.tracing.programs.denoisers import flux, transformers, unet, vae
from oomph.tracing.programs.denoisers.record import Denoiser, Recorded, record
from oomph.tracing.programs.denoisers.sizes import Sizes
from oomph.tracing.programs.forward import Studio
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.symbols import Symbols

PRECISIONS = ("bf16", "bf16-autocast", "fp32-autocast", "fp32")
_RUNS = 5


@dataclass(frozen=True)
class Family:
    """One family. `name` is the class; `kinds`: what a variant is chosen by beside precision and batch, each with what
    makes its Denoiser. `alone`: a batch of one does something else."""

    name: str
    kinds: Sequence[Mapping[str, Any]]
    denoiser: Callable[[Mapping[str, Any], str], Denoiser]
    sets: Callable[[Mapping[str, Any], bool], list[dict[str, int]]]
    names: Sequence[str]
    alone: bool = True
    sizes: Callable[[Sequence[Mapping[str, int]], Sequence[str]], Symbols] = Symbols
    precisions: Sequence[str] = PRECISIONS


def _flux(kind: Mapping[str, Any], precision: str) -> Denoiser:
    guided = bool(kind["guidance"])
    return Denoiser(
        lambda dimensions: flux.build(dimensions, guided),
        flux.loop(guided),
        flux.batch,
        flux.modules,
        flux.STACKS,
        precision,
    )


def _unet(name: str) -> Family:
    def denoiser(kind: Mapping[str, Any], precision: str) -> Denoiser:
        del kind
        return Denoiser(
            lambda _dimensions: unet.build(name),
            unet.step,
            lambda dimensions: unet.batch(name, dimensions),
            unet.modules,
            (),
            precision,
        )

    return Family(
        "UNet2DConditionModel",
        ({"config": dict(unet.CONFIGS[name])},),
        denoiser,
        lambda _kind, one: unet.sets(one),
        unet.NAMES,
        alone=False,
        sizes=Sizes,
    )


def _vae(kind: Mapping[str, Any], precision: str) -> Denoiser:
    latents, decodes = int(kind["latents"]), bool(kind["decodes"])
    return Denoiser(
        lambda _dimensions: vae.build(latents),
        vae.decode if decodes else vae.encode,
        vae.batch(latents, decodes),
        lambda _net: (),
        (),
        precision,
    )


def _dit(kind: Mapping[str, Any], precision: str) -> Denoiser:
    del kind
    return Denoiser(
        transformers.dit_build,
        transformers.dit_step,
        transformers.dit_batch,
        transformers.modules,
        (transformers.STACK,),
        precision,
    )


def _sd3(kind: Mapping[str, Any], precision: str) -> Denoiser:
    norm, twice = kind["qk_norm"], bool(kind["twice"])
    return Denoiser(
        lambda dimensions: transformers.sd3_build(dimensions, norm, twice),
        transformers.sd3_step,
        transformers.sd3_batch,
        transformers.modules,
        (transformers.STACK,),
        precision,
        transformers.sd3_part(twice),
    )


FAMILIES: Mapping[str, Family] = {
    "flux": Family(
        "FluxTransformer2DModel",
        ({"guidance": True}, {"guidance": False}),
        _flux,
        lambda _kind, one: flux.sets(one),
        flux.NAMES,
    ),
    "dit": Family(
        "DiTTransformer2DModel",
        ({},),
        _dit,
        lambda _kind, one: transformers.dit_sets(one),
        transformers.DIT_NAMES,
    ),
    "sd3": Family(
        "SD3Transformer2DModel",
        (
            {"qk_norm": None, "twice": False},
            {"qk_norm": "rms_norm", "twice": True},
            {"qk_norm": "rms_norm", "twice": False},
        ),
        _sd3,
        lambda _kind, one: transformers.sd3_sets(one),
        transformers.SD3_NAMES,
    ),
    "vae": Family(
        "AutoencoderKL",
        tuple({"latents": latents, "decodes": decodes} for latents in (4, 16) for decodes in (False, True)),
        _vae,
        lambda _kind, one: vae.sets(one),
        vae.NAMES,
        alone=False,
        sizes=Sizes,
        precisions=("bf16", "fp32"),
    ),
    **{f"unet-{name}": _unet(name) for name in unet.CONFIGS},
}


def ways(family: Family, precisions: Sequence[str] = ()) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    """Kind, precision, and whether the batch is one."""
    for kind in family.kinds:
        for precision in precisions or family.precisions:
            for one in (False, True) if family.alone else (False,):
                yield kind, precision, one


def made(family: Family, kind: Mapping[str, Any], precision: str, one: bool, studio: Studio) -> Recorded:
    """Records one way."""
    sets = family.sets(kind, one)[:_RUNS]
    return record(family.denoiser(kind, precision), sets, family.names, studio, family.sizes)


def contents(name: str, precisions: Sequence[str], tell: Callable[[str], Any]) -> str:
    """The file of a family."""
    import diffusers
    import torch

    family = FAMILIES[name]
    versions = {"torch": torch.__version__.partition("+")[0], "diffusers": diffusers.__version__}
    store = Store("diffusers", family.name, versions, {})
    with Studio() as studio:
        for kind, precision, one in ways(family, precisions):
            tell(f"{name} {dict(kind)} {precision} {'a batch of one' if one else ''}")
            recorded = made(family, kind, precision, one, studio)
            choice = {
                "precision": precision,
                "attention": "sdpa",
                "one": one,
                **kind,
                "order": recorded.order,
            }
            store.add(choice, recorded.made)
    return store.text()
