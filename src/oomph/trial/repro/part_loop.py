"""A plain loop: what runs between the phases."""

from __future__ import annotations

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.trial.repro.code import is_accelerated
from oomph.trial.repro.literals import literal
from oomph.trial.repro.optimizers import loop_optimizer
from oomph.trial.repro.part_model import TORCH
from oomph.trial.repro.tasks import task_of

#: Kernels of scaled_dot_product_attention that the job's does not leave to chance. The plain one stays, for what the
#: chosen one cannot do.
_SDP = {
    "sdpa_flash": ("mem_efficient", "cudnn"),
    "sdpa_efficient": ("flash", "cudnn"),
    "sdpa_math": ("flash", "mem_efficient", "cudnn"),
}


def casts(job: Job) -> bool:
    """Whether the loop autocasts. FSDP's mixed precision casts in its place."""
    sharded = job.parallel.strategy.startswith("fsdp")
    return job.precision.autocast and not sharded and not is_accelerated(job)


def scales(job: Job) -> bool:
    """Whether the loop scales losses: fp16 products with wider weights."""
    return (
        not is_accelerated(job)
        and job.precision.compute == "fp16"
        and job.precision.weights in ("fp32", "tf32")
    )


def autocast(job: Job) -> str:
    """`autocast(device)`, or ""."""
    if not casts(job):
        return ""
    return f"""\
def autocast(device):
    return torch.autocast(device.type, dtype={TORCH[job.precision.compute]})


"""


def function(job: Job, phase: Phase | None) -> str:
    """`run(options, phases)`."""
    return (
        "\n".join([*_start(job), *_steps(job), *_evaluation(job), *_generation(job), *_saving(job, phase)])
        + "\n"
    )


def _length(job: Job) -> str:
    return "None" if task_of(job.model)[0].images else "options.seq"


def switches(job: Job) -> list[str]:
    """Lines that choose kernels, at the start of `run`."""
    lines = [f"    torch.backends.cuda.enable_{name}_sdp(False)" for name in _SDP.get(job.attention, ())]
    if job.precision.compute == "tf32":
        lines.append("    torch.backends.cuda.matmul.allow_tf32 = True")
    return lines


def _start(job: Job) -> list[str]:
    if is_accelerated(job):
        return [*_accelerated(job), *_BATCH]
    lines = [
        "def run(options, phases):",
        '    on_gpu = options.device == "cuda"',
        '    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")',
        *switches(job),
        '    with phases("load"):',
        "        model = wrapped(make_model(), device).train()",
        "    trained = [each for each in model.parameters() if each.requires_grad]",
    ]
    lines.append(f"    optimizer = {loop_optimizer(job)}")
    if scales(job):
        lines.append("    scaler = torch.amp.GradScaler(device.type)")
    return [*lines, *_BATCH]


_BATCH = (
    "",
    "    def batch(samples, length):",
    "        return {name: each.to(device) for name, each in make_batch(samples, length).items()}",
    "",
)


def _accelerated(job: Job) -> list[str]:
    """accelerate casts, scales and shards, as its version does it."""
    precision = job.precision
    wide = precision.weights in ("fp32", "tf32")
    mixed = precision.compute in ("bf16", "fp16") and (precision.autocast or wide)
    sharded = job.parallel.strategy.startswith("fsdp")
    return [
        "def run(options, phases):",
        *switches(job),
        *(WARNING if sharded else ()),
        f'    mixed_precision = "{precision.compute if mixed else "no"}"',
        "    accelerator = accelerate.Accelerator(",
        '        mixed_precision=mixed_precision, cpu=options.device == "cpu"',
        "    )",
        "    device = accelerator.device",
        '    with phases("load"):',
        "        model = make_model().train()",
        "        trained = [each for each in model.parameters() if each.requires_grad]",
        f"        optimizer = {loop_optimizer(job)}",
        "        model, optimizer = accelerator.prepare(model, optimizer)",
    ]


#: Lines of scripts in which accelerate is to shard.
WARNING = (
    '    if options.device == "cpu":',
    '        print("accelerate does not shard on the CPU: DDP runs in place of FSDP", file=sys.stderr)',
)


def _steps(job: Job) -> list[str]:
    several, parallel = job.batch.accumulation > 1, job.parallel
    accelerated = is_accelerated(job)
    unreduced = several and parallel.strategy != "none" and not _reduces_each(job)
    lines, pad = ["    for _ in range(options.steps):"], "            "
    if not accelerated:
        lines.append("        optimizer.zero_grad()")
    lines.append(
        "        for micro in range(ACCUMULATION):" if unreduced else "        for _ in range(ACCUMULATION):"
    )
    if unreduced:
        lines.append("            last = micro == ACCUMULATION - 1")
        if accelerated:
            lines.append("            with contextlib.nullcontext() if last else accelerator.no_sync(model):")
            pad = "                "
        elif parallel.strategy.startswith("fsdp2"):
            lines.append("            model.set_requires_gradient_sync(last)")
        else:
            lines.append("            with contextlib.nullcontext() if last else model.no_sync():")
            pad = "                "
    cast = ", autocast(device)" if casts(job) else ""
    loss = "outputs.loss / ACCUMULATION" if several else "outputs.loss"
    backward = "scaler.scale(loss).backward()" if scales(job) else "loss.backward()"
    lines += [
        f"{pad}inputs = batch(options.batch, {_length(job)})",
        f'{pad}with phases("forward"){cast}:',
        f"{pad}    outputs = model(**inputs)",
        f"{pad}    loss = {loss}",
        f'{pad}with phases("backward"):',
        f"{pad}    {'accelerator.backward(loss)' if accelerated else backward}",
        '        with phases("optimizer"):',
    ]
    if scales(job):
        return [*lines, "            scaler.step(optimizer)", "            scaler.update()"]
    after = ["        optimizer.zero_grad()"] if accelerated else []
    return [*lines, "            optimizer.step()", *after]


def _reduces_each(job: Job) -> bool:
    """As a loop does where nothing says otherwise: DDP's `no_sync` has to be asked for, and so has FSDP's. accelerate's
    `accumulate` asks for it."""
    if is_accelerated(job) and job.parallel.sync_each_batch is None:
        return False
    return job.parallel.sync_each_batch is not False


def _evaluation(job: Job) -> list[str]:
    evaluation = job.evaluation
    if evaluation.batch is None:
        return []
    length = _length(job) if evaluation.sequence in (None, job.batch.sequence) else str(evaluation.sequence)
    cast = ", autocast(device)" if casts(job) else ""
    lines = [
        "    model.eval()",
        f'    with phases("eval"), torch.no_grad(){cast}:',
        "        predictions = []",
        "        for _ in range(EVALUATIONS):",
        f"            inputs = batch(options.eval_batch, {length})",
        "            evaluated = model(**inputs)",
    ]
    if evaluation.keep_logits:
        lines.append(
            "            predictions.append(evaluated.logits)  # on the GPU until the end, as in the job"
        )
        if evaluation.accumulation_steps:
            lines += [
                f"            if len(predictions) == {evaluation.accumulation_steps}:",
                "                torch.cat(predictions).cpu()",
                "                predictions.clear()",
            ]
        lines += ["        if predictions:", "            predictions = torch.cat(predictions)"]
    else:
        lines.remove("        predictions = []")
    return lines


def evaluations(job: Job) -> int:
    """Batches of the evaluation that have to run: all whose predictions are kept, else two, of which the second finds
    what the first left."""
    evaluation = job.evaluation
    batches = -(-(evaluation.samples or 2 * (evaluation.batch or 1)) // (evaluation.batch or 1))
    return batches if evaluation.keep_logits else min(2, batches)


def _generation(job: Job) -> list[str]:
    evaluation = job.evaluation
    if not evaluation.generate or job.parallel.strategy.startswith("fsdp"):
        return []
    inside = "model.module" if job.parallel.strategy == "ddp" else "model"
    cast = ", autocast(device)" if casts(job) else ""
    return [
        "    model.eval()",
        f"    prompts = batch(options.eval_batch, {evaluation.sequence or _length(job)})",
        '    del prompts["labels"]',
        f'    with phases("generate"), torch.no_grad(){cast}:',
        f"        {inside}.generate(",
        "            **prompts,",
        f"            max_new_tokens={evaluation.generate},",
        f"            min_new_tokens={evaluation.generate},",
        f"            num_beams={evaluation.beams},",
        "            do_sample=False,",
        "            use_cache=True,",
        "        )",
    ]


def _saving(job: Job, phase: Phase | None) -> list[str]:
    if phase is not Phase.SAVE:
        return []
    lines = ['    with phases("save"):']
    if is_accelerated(job):
        return [*lines, "        torch.save(accelerator.get_state_dict(model), os.devnull)"]
    if job.parallel.strategy.startswith("fsdp"):
        return [
            *lines,
            "        # the whole model on the host of rank 0, gathered one parameter after the other",
            "        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)",
            "        torch.save(get_model_state_dict(model, options=whole), os.devnull)",
        ]
    return [*lines, "        torch.save(model.state_dict(), os.devnull)"]


def constants(job: Job) -> str:
    """Numbers that the loop needs."""
    lines = [
        f"ACCUMULATION = {literal(job.batch.accumulation)}  # forwards and backwards of one optimizer step"
    ]
    if job.evaluation.batch is not None:
        lines.append(f"EVALUATIONS = {evaluations(job)}  # batches of the evaluation")
    return "\n".join(lines) + "\n"
