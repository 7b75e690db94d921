"""transformers' own Trainer on random data: which options it gets, and how phases are told apart in it."""

from __future__ import annotations

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.trial.repro.code import is_sft
from oomph.trial.repro.literals import literal
from oomph.trial.repro.optimizers import trainer_optimizer
from oomph.trial.repro.part_loop import WARNING, evaluations, switches
from oomph.trial.repro.part_model import leaves_adapters
from oomph.trial.repro.tasks import task_of

#: Since 4.41 (4.46 without a warning) `evaluation_strategy` is called so: training_args.py.
_NEW_NAME = (4, 41)
_SHARDING = {
    "fsdp1_full_shard": "FULL_SHARD",
    "fsdp1_shard_grad_op": "SHARD_GRAD_OP",
    "fsdp1_no_shard": "NO_SHARD",
    "fsdp1_hybrid_shard": "HYBRID_SHARD",
}
_PREFETCH = {"pre": "BACKWARD_PRE", "post": "BACKWARD_POST", "none": "NO_PREFETCH"}

_DATA = '''\
class Random(torch.utils.data.Dataset):
    """So many samples of random data."""

    def __init__(self, samples, length):
        self.samples, self.length = samples, length

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return {name: each[0] for name, each in make_batch(1, self.length).items()}


'''
_CLASSES = '''\
class Measured(transformers.Trainer):
    """The Trainer as it is: it only tells when forward, backward and evaluation begin and end."""

    def measure(self, phases):
        self.phases, backward = phases, self.accelerator.backward

        def measured(*args, **kwargs):
            with phases("backward"):
                backward(*args, **kwargs)

        self.accelerator.backward = measured

    def compute_loss(self, model, *args, **kwargs):
        with self.phases("forward") if model.training else contextlib.nullcontext():
            return super().compute_loss(model, *args, **kwargs)

    def evaluation_loop(self, *args, **kwargs):
        with self.phases("eval"):
            return super().evaluation_loop(*args, **kwargs)


class Step(transformers.TrainerCallback):
    """Tells when the model is ready, and when the optimizer's step begins and ends."""

    def __init__(self, phases):
        self.phases, self.load = phases, phases("load")
        self.load.__enter__()

    def on_train_begin(self, *args, **kwargs):
        self.load.__exit__(None, None, None)

    def on_pre_optimizer_step(self, *args, **kwargs):
        self.step = self.phases("optimizer")
        self.step.__enter__()

    def on_optimizer_step(self, *args, **kwargs):
        self.step.__exit__(None, None, None)
'''


def classes(job: Job) -> str:
    """The data set, the Trainer, and its callback."""
    if not is_sft(job):
        return _DATA + _CLASSES
    found = _CLASSES.replace("transformers.Trainer)", "trl.SFTTrainer)", 1)
    if job.batch.padding in (None, "off"):
        return found
    order = (
        "    def _get_train_sampler(self, *args):\n"
        "        return torch.utils.data.SequentialSampler(self.train_dataset)  # short and long ones in each batch\n\n"
    )
    return found.replace("    def compute_loss", f"{order}    def compute_loss", 1)


def environment(job: Job) -> str:
    """FSDP as `accelerate launch` asks for it; "" without."""
    values = _environment(job)
    if not values:
        return ""
    pairs = "".join(f"    {name}={literal(value)},\n" for name, value in values.items())
    return f"# FSDP as `accelerate launch` asks for it.\nos.environ.update(\n{pairs})\n"


def _environment(job: Job) -> dict[str, str]:
    parallel = job.parallel
    if not parallel.strategy.startswith("fsdp"):
        return {}
    second = parallel.strategy.startswith("fsdp2")
    values = {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2" if second else "1",
        "FSDP_AUTO_WRAP_POLICY": "NO_WRAP" if parallel.units == "root" else "TRANSFORMER_BASED_WRAP",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
        "FSDP_OFFLOAD_PARAMS": _word(parallel.offload_parameters),
        "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT" if second else "FULL_STATE_DICT",
    }
    if second:
        return {**values, "FSDP_RESHARD_AFTER_FORWARD": _word(parallel.strategy != "fsdp2_no_reshard")}
    return {
        **values,
        "FSDP_SHARDING_STRATEGY": _SHARDING[parallel.strategy],
        "FSDP_USE_ORIG_PARAMS": _word(parallel.use_orig_params is not False),
        "FSDP_BACKWARD_PREFETCH": _PREFETCH[parallel.backward_prefetch],
        "FSDP_FORWARD_PREFETCH": _word(parallel.forward_prefetch),
    }


def _word(on: bool) -> str:
    return "true" if on else "false"


def function(job: Job, phase: Phase | None) -> str:
    """`run(options, phases)`."""
    evaluation = job.evaluation
    image = task_of(job.model)[0].images
    length = "None" if image else "options.seq"
    sft = is_sft(job)
    make = "make_rows" if sft else "Random"
    lines = [
        "def run(options, phases):",
        *switches(job),
        '    world = int(os.environ.get("WORLD_SIZE", 1))',
        *(WARNING if job.parallel.strategy.startswith("fsdp") else ()),
        "    step = Step(phases)",
        "    with tempfile.TemporaryDirectory() as folder:",
        f"        settings = {'trl.SFTConfig' if sft else 'transformers.TrainingArguments'}(",
        "            output_dir=folder,",
        *(f"            {name}={value}," for name, value in _arguments(job).items()),
        "        )",
        "        trainer = Measured(",
        "            model=make_model(),",
        "            args=settings,",
        f"            train_dataset={make}(options.steps * ACCUMULATION * options.batch * world, {length}),",
    ]
    if evaluation.batch is not None:
        other = evaluation.sequence not in (None, job.batch.sequence) and not image
        size = str(evaluation.sequence) if other else length
        lines.append(f"            eval_dataset={make}(EVALUATIONS * options.eval_batch * world, {size}),")
    if evaluation.keep_logits:
        lines.append("            compute_metrics=lambda predictions: {},  # so that predictions are kept")
    if sft:
        lines.append("            processing_class=make_tokenizer(),")
    if leaves_adapters(job):
        lines.append("            peft_config=make_adapters(),")
    lines += [
        "            callbacks=[step],",
        "        )",
        "        trainer.measure(phases)",
        "        trainer.train()",
    ]
    if phase is Phase.SAVE:
        lines += [
            '        with phases("save"):',
            "            trainer.save_model(folder)",
        ]
    return "\n".join(lines) + "\n"


def _arguments(job: Job) -> dict[str, str]:
    """TrainingArguments, as source."""
    precision, evaluation, parallel = job.precision, job.evaluation, job.parallel
    values = {
        "per_device_train_batch_size": "options.batch",
        "gradient_accumulation_steps": "ACCUMULATION",
        "max_steps": "options.steps",
        "optim": literal(trainer_optimizer(job)),
    }
    if mixed(job):
        values[precision.compute] = "True"
    elif is_sft(job):
        values["bf16"] = "False"  # SFTConfig's own is True
    if is_sft(job):
        values["max_length"] = "None"
        values["gradient_checkpointing"] = "False"
    if precision.compute == "tf32":
        values["tf32"] = 'options.device == "cuda"'
    if job.checkpointing.mode == "full":
        values["gradient_checkpointing"] = "True"
        if job.checkpointing.reentrant is not None:
            values["gradient_checkpointing_kwargs"] = f'{{"use_reentrant": {job.checkpointing.reentrant}}}'
    if parallel.strategy == "ddp" and parallel.ddp_bucket_bytes != 25 << 20:
        values["ddp_bucket_cap_mb"] = str(max(1, parallel.ddp_bucket_bytes >> 20))
    if evaluation.batch is not None:
        version = job.framework.version("transformers")
        new = version is None or version >= _NEW_NAME
        values["eval_strategy" if new else "evaluation_strategy"] = '"steps"'
        values["eval_steps"] = "options.steps"
        values["per_device_eval_batch_size"] = "options.eval_batch"
        if not evaluation.keep_logits:
            values["prediction_loss_only"] = "True"
        elif evaluation.accumulation_steps:
            values["eval_accumulation_steps"] = str(evaluation.accumulation_steps)
    return {
        **values,
        "use_cpu": 'options.device == "cpu"',
        "save_strategy": '"no"',
        "logging_strategy": '"no"',
        "report_to": '"none"',
        "disable_tqdm": "True",
    }


def mixed(job: Job) -> bool:
    """Whether Trainer's bf16 or fp16 is on: autocast, or FSDP's mixed precision over wider weights."""
    precision = job.precision
    wide = precision.weights in ("fp32", "tf32")
    return precision.compute in ("bf16", "fp16") and (precision.autocast or wide)


def constants(job: Job) -> str:
    """Numbers that it needs."""
    lines = [f"ACCUMULATION = {job.batch.accumulation}  # forwards and backwards of one optimizer step"]
    if job.evaluation.batch is not None:
        lines.append(f"EVALUATIONS = {evaluations(job)}  # batches of the evaluation on each rank")
    return "\n".join(lines) + "\n"
