"""A command line: the launcher (torchrun, accelerate, deepspeed, ...) and the script's flags.

Which framework the flags belong to is recognised by them; the launcher says how many processes there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.errors import InputError
from oomph.job.importers import shell
from oomph.job.importers.formats import (
    accelerate,
    diffusers,
    litgpt,
    llama_factory,
    megatron,
    torchtitan,
    torchtune,
    training_arguments,
    trl,
)
from oomph.job.importers.formats.harmless import harmless
from oomph.job.importers.imported import Collector, Handler, Imported
from oomph.job.importers.printed import literal
from oomph.job.importers.text import Source
from oomph.job.importers.values import to_whole, whole, words


def _nodes(collector: Collector, key: str, value: object) -> None:
    text = str(value).split(":")[-1]
    to_whole("given.nodes")(collector, key, text)


def _per_node(collector: Collector, key: str, value: object) -> None:
    if str(value).lower() in ("auto", "gpu"):
        collector.note(f"{key} = {value}: as many processes as the node has GPUs")
    elif whole(value) is not None and (whole(value) or 0) >= 1:
        collector.put("given.gpus_per_node", whole(value), key, value)
    else:
        collector.refuse(key, value)


def _include(collector: Collector, key: str, value: object) -> None:
    """deepspeed --include localhost:0,1,2,3"""
    devices = words(str(value).rsplit(":", 1)[-1]) or ()
    if devices and all(d.isdigit() for d in devices):
        collector.put("given.gpus_per_node", len(devices), key, value)


def _config_file(collector: Collector, key: str, value: object) -> None:
    if isinstance(value, str):
        collector.put("given.needs.accelerate", value[:300], key, value)


_TORCHRUN: dict[str, Handler] = {
    "nproc_per_node": _per_node,
    "nproc-per-node": _per_node,
    "nnodes": _nodes,
}
_DEEPSPEED: dict[str, Handler] = {
    "num_gpus": _per_node,
    "num_nodes": _nodes,
    "include": _include,
    "i": _include,
}
_ACCELERATE: dict[str, Handler] = {"config_file": _config_file}


def read(source: Source) -> Imported:
    """The command with the most flags of a script."""
    command = source.command
    if command is None:
        raise InputError(f"{source.name or 'the text'} is no command line")
    collector = Collector("command", source.name)
    _launch(collector, command)
    _environment(collector, command)
    flags = {key: _value(value) for key, value in command.flags.items()}
    _script(collector, command, flags)
    for arguments in command.conditional:
        collector.note(
            f"only under a condition of the script, and left out: {' '.join(arguments.split())[:200]}"
        )
    return collector.done()


def _launch(collector: Collector, command: shell.Command) -> None:
    launch = {k: _value(v) for k, v in command.launch.items()}
    if command.launcher == "accelerate":
        _accelerate(collector, launch)
    elif command.launcher == "deepspeed":
        collector.read(launch, _DEEPSPEED, harmless("launchers"), parent="--")
    else:
        collector.read(launch, _TORCHRUN, harmless("launchers"), parent="--")
    if command.launcher == "srun":
        _slurm(collector, command, launch)


def _slurm(collector: Collector, command: shell.Command, launch: Mapping[str, object]) -> None:
    """srun starts a process for every task, of itself or of the `#SBATCH` lines; each has a GPU."""
    nodes = launch.get("nodes", launch.get("N", command.variables.get("SLURM_NNODES")))
    tasks = launch.get("ntasks_per_node", command.variables.get("SLURM_NTASKS_PER_NODE"))
    if whole(nodes) is not None:
        collector.put("given.nodes", whole(nodes), "--nodes", nodes)
    if whole(tasks) is not None and (whole(tasks) or 0) >= 1:
        collector.put("given.gpus_per_node", whole(tasks), "--ntasks-per-node", tasks)


def _accelerate(collector: Collector, launch: Mapping[str, object]) -> None:
    """`accelerate launch --num_processes 8 --use_fsdp --fsdp_version 2 ...`: the YAML's keys as flags."""
    table: dict[str, object] = {}
    parts: dict[str, dict[str, object]] = {
        "fsdp_config": {},
        "deepspeed_config": {},
        "parallelism_config": {},
    }
    for key, value in launch.items():
        if key in harmless("launchers"):
            continue
        if key.startswith("fsdp_"):
            parts["fsdp_config"][key] = value
        elif key.startswith("parallelism_config_"):
            parts["parallelism_config"][key] = value
        elif key in (
            "zero_stage",
            "offload_optimizer_device",
            "offload_param_device",
            "zero3_init_flag",
            "deepspeed_config_file",
            "gradient_accumulation_steps",
            "gradient_clipping",
            "zero3_save_16bit_model",
        ):
            parts["deepspeed_config"][key] = value
        elif key not in ("use_fsdp", "use_deepspeed", "multi_gpu", "config_file", "use_parallelism_config"):
            table[key] = value
    kinds = (("use_fsdp", "FSDP"), ("use_deepspeed", "DEEPSPEED"), ("multi_gpu", "MULTI_GPU"))
    for flag, kind in kinds:
        if launch.get(flag):
            table["distributed_type"] = kind
            break
    table.update({name: part for name, part in parts.items() if part})
    if "config_file" in launch:
        _config_file(collector, "--config_file", launch["config_file"])
    part = accelerate.read(Source("", "yaml", table, ""))
    collector.values.update(part.values)
    collector.unknown.extend(part.unknown)
    collector.unsupported.extend(part.unsupported)
    collector.notes.extend(part.notes)


def _environment(collector: Collector, command: shell.Command) -> None:
    """PYTORCH_CUDA_ALLOC_CONF, and the GPUs that are visible to one process."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if command.variables.get(name):
            collector.put("allocator", command.variables[name][:500], name, command.variables[name])
    for name in ("NPROC_PER_NODE", "FORCE_TORCHRUN"):
        if (
            command.launcher == "llamafactory-cli"
            and name == "NPROC_PER_NODE"
            and whole(command.variables.get(name))
        ):
            collector.put(
                "given.gpus_per_node", whole(command.variables[name]), name, command.variables[name]
            )


def _value(value: object) -> object:
    """Text of a command line as the value that it means."""
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, str):
        return value
    lowered = value.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if value.strip()[:1] in ("{", "["):
        found = literal(value.strip())
        if isinstance(found, str):
            found = literal(
                value.strip().replace("true", "True").replace("false", "False").replace("null", "None")
            )
        return found
    return value


def _script(collector: Collector, command: shell.Command, flags: Mapping[str, object]) -> None:
    launcher = command.launcher
    if launcher == "tune":
        _tune(collector, command, flags)
    elif launcher == "llamafactory-cli":
        _file_and_overrides(collector, command)
        llama_factory.read_table(collector, {**flags, **_overrides(command)})
    elif launcher == "axolotl":
        _file_and_overrides(collector, command)
        collector.note("axolotl's settings are in the YAML: give it as well")
    elif launcher == "litgpt":
        _litgpt(collector, command, flags)
    elif launcher == "trl":
        trl.read_trl(collector, _plain_flags(flags), command.script.lower())
    elif any(key.startswith(("training.", "job.", "parallelism.", "experimental.")) for key in flags):
        torchtitan.read_tables(collector, _nested(flags))
        if "job.config_file" in flags:
            collector.put(
                "given.needs.torchtitan",
                str(flags["job.config_file"])[:300],
                "--job.config_file",
                flags["job.config_file"],
            )
    elif (
        {"num_layers", "hidden_size"} <= set(flags)
        or "micro_batch_size" in flags
        or "tensor_model_parallel_size" in flags
    ):
        megatron.read_arguments(collector, flags)
    elif {"finetuning_type", "cutoff_len"} & set(flags):
        llama_factory.read_table(collector, flags)
    elif "pretrained_model_name_or_path" in flags:
        diffusers.read_flags(collector, flags, command.script)
    else:
        _huggingface(collector, command, flags)


def _litgpt(collector: Collector, command: shell.Command, flags: Mapping[str, object]) -> None:
    """`litgpt finetune_lora MODEL --config FILE --train.micro_batch_size 2`."""
    settings = _nested({key: value for key, value in flags.items() if key != "config"})
    model = next((word for word in command.words if "=" not in word), "")
    if model:
        settings.setdefault("model_name" if "pretrain" in command.script else "checkpoint_dir", model)
    if "config" in flags:
        collector.put("given.needs.litgpt", str(flags["config"])[:300], "--config", flags["config"])
    litgpt.read_table(collector, settings, command.script)


def _plain_flags(flags: Mapping[str, object]) -> dict[str, object]:
    """`--no_gradient_checkpointing` switches off."""
    plain: dict[str, object] = {}
    for key, value in flags.items():
        if key.startswith("no_") and value is True and key[3:] in training_arguments.KEYS:
            plain[key[3:]] = False
        else:
            plain[key] = value
    return plain


def _huggingface(collector: Collector, command: shell.Command, flags: Mapping[str, object]) -> None:
    plain = _plain_flags(flags)
    _file_and_overrides(collector, command)
    trl_keys = {
        "packing",
        "max_length",
        "dataset_text_field",
        "num_generations",
        "max_prompt_length",
        "eval_packing",
    }
    script = command.script.rsplit("/", 1)[-1].lower().removesuffix(".py")
    if trl_keys & set(plain) or script in ("sft", "dpo", "grpo", "kto", "ppo", "orpo", "reward"):
        trl.read_trl(
            collector, plain, script if script in ("dpo", "grpo", "kto", "ppo", "orpo", "reward") else "sft"
        )
        return
    collector.put("framework.name", "transformers", "command", command.script or "TrainingArguments")
    known = set(plain) & set(training_arguments.KEYS)
    if not known:
        collector.note("none of the script's flags is one of transformers' TrainingArguments")
        collector.values.pop("framework.name")
        collector.read(plain, {}, harmless("training_arguments"), parent="--")
        return
    training_arguments.read_arguments(collector, plain)


def _nested(flags: Mapping[str, object]) -> dict[str, object]:
    """`--training.batch_size 2` as {"training": {"batch_size": 2}}."""
    tree: dict[str, object] = {}
    for key, value in flags.items():
        *parents, last = key.split(".")
        table = tree
        for parent in parents[:5]:
            inner = table.setdefault(parent, {})
            table = inner if isinstance(inner, dict) else {}
        table[last] = value
    return tree


def _overrides(command: shell.Command) -> dict[str, object]:
    """`key=value` words."""
    found: dict[str, object] = {}
    for word in command.words:
        key, equals, value = word.partition("=")
        if equals:
            found[key] = _value(value)
    return found


def _file_and_overrides(collector: Collector, command: shell.Command) -> None:
    file = command.script if command.script.endswith((".yaml", ".yml", ".json")) else ""
    for word in command.words:
        if word.endswith((".yaml", ".yml", ".json")) and "=" not in word:
            file = word
    if file:
        kinds = {"llamafactory-cli": "llama-factory", "axolotl": "axolotl", "litgpt": "litgpt"}
        collector.put(
            f"given.needs.{kinds.get(command.launcher, 'trainer')}", file[:300], "the command", file
        )


def _tune(collector: Collector, command: shell.Command, flags: Mapping[str, object]) -> None:
    """`tune run --nproc_per_node 2 full_finetune_distributed --config llama3/8B_full batch_size=4`."""
    config = flags.get("config")
    overrides = _nested(_overrides(command))
    if config:
        collector.put("given.needs.torchtune", str(config)[:300], "--config", config)
    if overrides:
        torchtune.read_overrides(collector, overrides)
