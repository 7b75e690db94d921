"""Random data of the job's shapes."""

from __future__ import annotations

from oomph.errors import UsageError
from oomph.job.families import dimensions
from oomph.job.families.build import Reader
from oomph.job.model import Job
from oomph.trial.repro.part_model import TORCH
from oomph.trial.repro.tasks import Task, task_of


def image_size(job: Job) -> int:
    """Pixels of a side."""
    size = job.batch.image_size or job.model.get("image_size")
    return _whole(size, "the size of the images", "batch.image_size")


def _whole(value: object, what: str, path: str) -> int:
    """A number that becomes a part of the script. Raises UsageError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"No script is written: {what} is not known (--set {path}=N).")
    return value


def assumed(job: Job) -> tuple[str, ...]:
    """What is taken for granted of the data."""
    task, sentence = task_of(job.model)
    found = [sentence] if sentence else []
    if not task.images and job.batch.padding is None and not job.batch.packed:
        found.append("No sample is padded: attention gets a mask of ones (batch.padding says otherwise).")
    if job.batch.variable:
        found.append("Every batch is as long as the longest.")
    if task.target and job.batch.target is None:
        found.append("What the decoder writes is as long as what the encoder reads (batch.target).")
    return tuple(found)


def function(job: Job) -> str:
    """`make_batch(samples, length)`: one batch on the host."""
    task, _ = task_of(job.model)
    lines = [
        "def make_batch(samples, length):",
        '    """Random data as the job\'s collator gives it, on the host."""',
    ]
    return "\n".join([*lines, *_lines(job, task)]) + "\n"


def rows(job: Job) -> str:
    """`make_rows(samples, length)` and `make_tokenizer()`: what SFTTrainer takes."""
    vocabulary = dimensions(job.model)["vocab"]
    lines = [
        "def make_rows(samples, length):",
        '    """Random texts as the job\'s data set has them, tokenised."""',
        f"    tokens = torch.randint(2, {vocabulary}, (samples, length)).tolist()",
    ]
    if _pads(job):
        lines.append(
            "    tokens[::2] = [row[:-1] for row in tokens[::2]]  # padded: attention gets a mask with zeros"
        )
    return (
        "\n".join([*lines, '    return datasets.Dataset.from_dict({"input_ids": tokens})', *_TOKENIZER])
        + "\n"
    )


_TOKENIZER = (
    "",
    "",
    "def make_tokenizer():",
    '    """One that knows how texts end and are padded, and nothing else."""',
    '    words = tokenizers.models.WordLevel({"<pad>": 0, "<end>": 1}, unk_token="<pad>")',
    "    inner = tokenizers.Tokenizer(words)",
    "    return transformers.PreTrainedTokenizerFast(",
    '        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>"',
    "    )",
)


def _pads(job: Job) -> bool:
    """Whether samples of a batch differ in length."""
    return job.batch.padding == "max_length" or (job.batch.padding == "longest" and job.batch.micro > 1)


def _lines(job: Job, task: Task) -> list[str]:
    if task.images:
        side = image_size(job)
        channels = _whole(
            job.model.get("num_channels", 3), "the number of channels", "model.config.num_channels"
        )
        low = not job.precision.autocast and job.precision.weights in ("bf16", "fp16")
        kind = f", dtype={TORCH[job.precision.weights]}" if low else ""
        return [
            f"    images = torch.randn(samples, {channels}, {side}, {side}{kind})",
            f'    return {{"pixel_values": images, "labels": {_labels(job, task)}}}',
        ]
    vocabulary = dimensions(job.model)["vocab"]
    lines = [f"    tokens = torch.randint(0, {vocabulary}, (samples, length))"]
    if job.batch.packed:
        # Samples are told apart by position ids, which nothing else than attention's mask depends on.
        lines.append('    batch = {"input_ids": tokens}')
    else:
        lines.append('    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}')
        if _pads(job):
            lines.append('    batch["attention_mask"][0, -1] = 0  # padded: attention gets a mask with zeros')
    lines.append(f'    return {{**batch, "labels": {_labels(job, task)}}}')
    return lines


def _labels(job: Job, task: Task) -> str:
    if task.target and job.batch.target is not None:
        vocabulary = dimensions(job.model)["vocab"]
        return f"torch.randint(0, {vocabulary}, (samples, {job.batch.target}))"
    if task.labels == "tokens":
        return "tokens.clone()"
    classes = Reader(job.model).labels
    if task.labels == "classes" and classes == 1:
        return "torch.rand(samples)"
    shape = "(samples,)" if task.labels == "classes" else "(samples, length)"
    return f"torch.randint(0, {classes}, {shape})"
