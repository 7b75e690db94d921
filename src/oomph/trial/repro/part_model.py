"""The model: its configuration as a table, and the function that makes it."""

from __future__ import annotations

from oomph.job.config import to_config
from oomph.job.families.build import Reader
from oomph.job.model import Job, Lora
from oomph.trial.repro.code import LOOP, is_sft
from oomph.trial.repro.literals import literal
from oomph.trial.repro.tasks import Task, task_of

TORCH = {"fp32": "torch.float32", "tf32": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}
#: What a configuration says beside the shape of the model: where code and weights come from, and how they are stored.
_DROPPED = frozenset(
    (
        "_attn_implementation",
        "_name_or_path",
        "attn_implementation",
        "auto_map",
        "dtype",
        "id2label",
        "label2id",
        "quantization_config",
        "torch_dtype",
        "transformers_version",
    )
)
_ATTENTION = {"sdpa_flash": "sdpa", "sdpa_efficient": "sdpa", "sdpa_math": "sdpa", "flex": "flex_attention"}
_PEFT_TASKS = {
    "causal_lm": "CAUSAL_LM",
    "seq2seq_lm": "SEQ_2_SEQ_LM",
    "sequence_classification": "SEQ_CLS",
    "token_classification": "TOKEN_CLS",
}


def config_table(job: Job) -> dict[str, object]:
    """The configuration as AutoConfig takes it."""
    table = _without(to_config(job.model))
    task = task_of(job.model)[0]
    if task.labels in ("classes", "tags"):
        table["num_labels"] = Reader(job.model).labels
    if task.target:
        # Which token a text begins with decides no sizes, and labels cannot be shifted without.
        for name in ("decoder_start_token_id", "pad_token_id"):
            if table.get(name) is None:
                table[name] = 0
    table.pop("model_type", None)
    return {"model_type": job.model.family, **table}


def _without(table: dict[str, object]) -> dict[str, object]:
    return {
        key: _without(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if key not in _DROPPED
    }


def constants(job: Job) -> str:
    """CONFIG and what is beside it."""
    lines = [
        "# The model's configuration, of which transformers makes it with random weights.",
        f"CONFIG = {literal(config_table(job))}",
        f"DTYPE = {TORCH[job.precision.weights]}  # of the weights",
    ]
    if job.method.frozen:
        lines.append(f"FROZEN = tuple({literal(list(job.method.frozen))})  # beginnings of parameters' names")
    return "\n".join(lines) + "\n"


def function(job: Job, kind: str) -> str:
    """`make_model()`."""
    task, _ = task_of(job.model)
    attention = _ATTENTION.get(job.attention, job.attention)
    # transformers takes sdpa by itself, and eager for classes that lack it, which would refuse to be asked for sdpa.
    asked = "" if job.attention == "sdpa" else f", attn_implementation={literal(attention)}"
    lines = [
        "def make_model():",
        '    """The model on the host, as it is before anything wraps it."""',
        "    fields = dict(CONFIG)",
        '    family = fields.pop("model_type")',
        "    config = transformers.AutoConfig.for_model(family, **fields, torch_dtype=DTYPE)",
    ]
    if kind == LOOP and not task.images:
        lines.append("    config.use_cache = False")
    lines += [
        f"    auto = transformers.{task.auto}",
        f"    model = auto.from_config(config{asked})",
    ]
    if job.method.quantization is not None:
        lines.append("    quantize(model)")
        if job.method.quantization.prepared and not leaves_adapters(job):
            lines += [
                "    model = peft.prepare_model_for_kbit_training(",
                f"        model, use_gradient_checkpointing={job.checkpointing.mode != 'none'}",
                "    )",
            ]
    if job.method.frozen:
        lines += [
            "    for name, parameter in model.named_parameters():",
            "        if name.startswith(FROZEN):",
            "            parameter.requires_grad_(False)",
        ]
    if kind == LOOP and job.checkpointing.mode == "full":
        reentrant = job.checkpointing.reentrant
        how = "" if reentrant is None else f'gradient_checkpointing_kwargs={{"use_reentrant": {reentrant}}}'
        lines.append(f"    model.gradient_checkpointing_enable({how})")
    if job.method.lora is not None and not leaves_adapters(job):
        lines += [*_adapters(job.method.lora, task), *_adapted(job, job.method.lora)]
    lines.append("    return model")
    if job.method.lora is not None and leaves_adapters(job):
        lines += [
            "",
            "",
            "def make_adapters():",
            '    """LoRA, which SFTTrainer puts on quantised weights in its own way."""',
        ]
        lines += [*_adapters(job.method.lora, task), "    return adapters"]
    quantizer = _quantizer(job) if job.method.quantization is not None else ""
    return quantizer + "\n".join(lines) + "\n"


def leaves_adapters(job: Job) -> bool:
    """Whether the trainer makes the adapters: what TRL casts beside quantised weights is its version's to say."""
    return is_sft(job) and job.method.quantization is not None


def _adapters(lora: Lora, task: Task) -> list[str]:
    targets = "all-linear" if "all-linear" in lora.targets else list(lora.targets)
    lines = [
        "    adapters = peft.LoraConfig(",
        f"        r={lora.rank},",
        f"        target_modules={literal(targets, 8)},",
        f"        lora_dropout={literal(lora.dropout)},",
    ]
    if lora.dora:
        lines.append("        use_dora=True,")
    if lora.modules_to_save:
        lines.append(f"        modules_to_save={literal(list(lora.modules_to_save), 8)},")
    if task.name in _PEFT_TASKS:
        lines.append(f"        task_type={literal(_PEFT_TASKS[task.name])},")
    return [*lines, "    )"]


def _adapted(job: Job, lora: Lora) -> list[str]:
    wide = lora.dtype == "fp32" and job.precision.weights in ("bf16", "fp16")
    cast = "" if wide or job.precision.weights == "fp32" else ", autocast_adapter_dtype=False"
    return [f"    model = peft.get_peft_model(model, adapters{cast})"]


def _quantizer(job: Job) -> str:
    quantization = job.method.quantization
    assert quantization is not None
    # Products are in the compute type, which is bf16 where nothing else is said (BitsAndBytesConfig's is fp32).
    compute = TORCH[job.precision.compute] if job.precision.compute in TORCH else TORCH["fp32"]
    return f'''\
def quantize(model):
    """4-bit layers in place of all linear ones but the output layer, as transformers does when it loads them."""
    output = model.get_output_embeddings()
    for name, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or module is output:
            continue
        made = bitsandbytes.nn.Linear4bit(
            module.in_features,
            module.out_features,
            bias=module.bias is not None,
            compute_dtype={compute},
            compress_statistics={quantization.double},
            quant_type={literal(quantization.kind)},
        )
        made.requires_grad_(False)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, made)
    model.is_loaded_in_4bit = True


'''
