"""What the log says about the job, as the actions need it: settings that are on, and how they are spelled there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.case import Case

#: Framework -> whose spelling of settings its users write. The first of this order that the log names decides: an
#: outer tool is set up through its own config, whatever runs below it.
_DIALECTS: tuple[tuple[str, str], ...] = (
    ("axolotl", "axolotl"),
    ("llamafactory", "transformers"),
    ("torchtune", "torchtune"),
    ("torchtitan", "torchtitan"),
    ("megatron", "megatron"),
    ("colossalai", "colossalai"),
    ("nemo", "megatron"),
    ("ultralytics", "ultralytics"),
    ("mmengine", "mmengine"),
    ("lightning", "lightning"),
    ("trl", "transformers"),
    ("unsloth", "transformers"),
    ("deepspeed", "deepspeed"),
    ("diffusers", "diffusers"),
    ("accelerate", "accelerate"),
)
_TRAINER = re.compile(r"transformers[/\\]trainer\w*\.py|trl[/\\]trainer")
_CHECKPOINT_FRAME = re.compile(
    r"torch[/\\]utils[/\\]checkpoint\.py|activation_checkpointing[/\\]|checkpoint_wrapper\.py|"
    r"tensor_parallel[/\\]random\.py"
)
_SHARDING = frozenset({"fsdp", "fsdp2", "torchtitan"})
_SHARDED_FRAME = re.compile(
    r"distributed[/\\]_?tensor[/\\]|fully_shard|fully_sharded_data_parallel|runtime[/\\]zero[/\\]stage3|"
    r"partitioned_param"
)
_HALF = frozenset({"fp16", "bf16"})
_EIGHT_BIT = re.compile(r"8bit|8-bit|_8b\b", re.IGNORECASE)


@dataclass(frozen=True)
class Setup:
    """Settings by the log; None, "" or an empty set where it does not say.

    `dialect` is whose spelling to use in a pasted setting ("" for plain PyTorch). Counts are positive.
    """

    frameworks: frozenset[str]
    dialect: str
    batch: int | None
    accumulation: int | None
    eval_batch: int | None
    sequence: int | None
    world: int | None
    total_params: int | None
    trainable_params: int | None
    zero_stage: int | None
    optimizer: str
    dtype: str
    mixed: str
    quantization: str
    checkpointing: bool
    lora: bool
    sharded_by_frame: bool
    offload: str

    @property
    def sharded_parameters(self) -> bool:
        """Parameters are spread over the ranks already (ZeRO-3, FSDP)."""
        return self.zero_stage == 3 or self.sharded_by_frame or bool(self.frameworks & _SHARDING)

    @property
    def sharded_optimizer(self) -> bool:
        """Optimizer states are spread over the ranks already."""
        return self.sharded_parameters or bool(self.zero_stage)

    @property
    def partly_trained(self) -> bool:
        """Adapters, or a small trainable part: the optimizer sees few of the parameters."""
        if self.lora:
            return True
        if self.total_params and self.trainable_params:
            return self.trainable_params * 5 <= self.total_params
        return False

    @property
    def params(self) -> int | None:
        """All parameters; where only the trained ones are printed and no adapters are in use, those: a floor."""
        return self.total_params or (None if self.lora else self.trainable_params)

    @property
    def is_adam(self) -> bool:
        return "adam" in self.optimizer.lower()

    @property
    def eight_bit_optimizer(self) -> bool:
        return _EIGHT_BIT.search(self.optimizer) is not None

    @property
    def adam_bytes_per_parameter(self) -> int | None:
        """Bytes of Adam's two states per trainable parameter: they have the width of what the optimizer is given.

        Mixed precision by autocast keeps fp32 parameters, DeepSpeed keeps fp32 copies: 8. Parameters that are bf16 or
        fp16 themselves: 4. None for another optimizer or where the log does not decide.
        """
        if not self.is_adam or self.eight_bit_optimizer:
            return None
        if "deepspeed" in self.frameworks or self.zero_stage is not None or self.dtype == "fp32":
            return 8
        if self.dtype in _HALF:
            return 4
        return 8 if self.mixed in _HALF else None

    @property
    def adam_bytes(self) -> int | None:
        """Adam's states on one rank, None where a factor is unknown."""
        width = self.adam_bytes_per_parameter
        if width is None or not self.trainable_params:
            return None
        whole = width * self.trainable_params
        if not self.sharded_optimizer:
            return whole
        return whole // self.world if self.world else None


def setup_of(case: Case) -> Setup:
    """The settings of the failing job."""
    frameworks = frozenset(fact.value for fact in case.evidence.facts_named("framework"))
    return Setup(
        frameworks=frameworks,
        dialect=_dialect(case, frameworks),
        batch=case.number("batch_size") or None,
        accumulation=case.number("accumulation") or None,
        eval_batch=case.number("eval_batch_size") or None,
        sequence=case.number("sequence_length") or None,
        world=case.number("world_size") or None,
        total_params=case.number("total_params") or None,
        trainable_params=case.number("trainable_params") or None,
        zero_stage=case.number("zero_stage"),
        optimizer=_value(case, "optimizer"),
        dtype=_value(case, "dtype"),
        mixed=_value(case, "mixed_precision"),
        quantization=_value(case, "quantization"),
        checkpointing=_is_checkpointing(case),
        lora=bool(case.number("lora_rank")),
        sharded_by_frame=case.frame_matching(_SHARDED_FRAME) is not None,
        offload=_value(case, "offload"),
    )


def _value(case: Case, name: str) -> str:
    fact = case.fact(name)
    return fact.value if fact is not None else ""


def _dialect(case: Case, frameworks: frozenset[str]) -> str:
    outer = next((dialect for name, dialect in _DIALECTS if name in frameworks), "")
    if outer in ("deepspeed", "accelerate", "diffusers", "") and case.frame_matching(_TRAINER) is not None:
        return "transformers"
    if outer in ("", "accelerate") and "transformers" in frameworks:
        # A model of the library in a loop of one's own has no Trainer frames; without frames the name is all there is.
        return outer if case.frames else "transformers"
    return outer


def _is_checkpointing(case: Case) -> bool:
    """On by its setting, or seen at work: a recompute, or a frame of the checkpoint function."""
    if case.flag("checkpointing") or case.phase_verdict.recompute:
        return True
    return case.frame_matching(_CHECKPOINT_FRAME) is not None


def on_unsupported_platform(case: Case) -> str:
    """Why expandable segments do not work here, "" where nothing says so."""
    if case.platform in ("wsl2", "windows", "macos"):
        return {"wsl2": "WSL2", "windows": "Windows", "macos": "macOS"}[case.platform]
    gpu = case.fact("gpu_name")
    if gpu is not None and re.search(r"jetson|orin|xavier|tegra|thor\b", gpu.value, re.IGNORECASE):
        return "Jetson"
    if case.failure.vendor not in ("cuda", "hip"):
        return case.failure.vendor.upper()
    return ""


def torch_release(case: Case) -> tuple[int, int] | None:
    """(2, 5) for PyTorch 2.5.1, None where the log does not say."""
    fact = case.fact("torch_version")
    match = re.match(r"(\d{1,2})\.(\d{1,3})", fact.value) if fact is not None else None
    return (int(match[1]), int(match[2])) if match else None
