"""What single lines of a log say of its job, in the words of a job: settings, sizes, the GPU, who trains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from oomph.diagnose.case import Case
from oomph.errors import UsageError
from oomph.evidence.model import Fact, Quote
from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.tables import all_gpus
from oomph.job.importers.formats.hf_keys import OPTIMIZERS
from oomph.job.importers.imported import Imported, Value, quote

#: Names of settings that are the length of what is trained on. `max_length` and `model_max_length` stand in the
#: configurations of tokenizers and of generation as well, and are none of these.
_LENGTH = re.compile(
    r"(?:max|model)?[_\- ]?(?:seq(?:uence)?[_\- ]?len(?:gth)?|cutoff_len|block_size|context[_\- ]length|"
    r"tokens[_\- ]per[_\- ]sample)|\bseq\b|--max[_-]length",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    r"Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]{1,12})\s*$"
)
#: The Trainer prints it when a training starts.
_LINES = 20_000
_WHOLE = {"batch_size": "batch.micro", "accumulation": "batch.accumulation", "world_size": "hardware.gpus"}
#: Whose code trains, as the plan calls it; the first that the log names.
_FRAMEWORKS = (
    ("axolotl", "axolotl"),
    ("llamafactory", "llama-factory"),
    ("torchtune", "torchtune"),
    ("torchtitan", "torchtitan"),
    ("litgpt", "litgpt"),
    ("trl", "trl"),
    ("transformers", "transformers"),
    ("lightning", "lightning"),
)
#: Those whose models or loops are others than the plan's.
_OTHERS = (
    *("megatron", "colossalai", "nemo", "unsloth", "mmengine", "detectron2", "fairseq", "ultralytics"),
    *("verl", "openrlhf", "diffusers", "keras", "paddle", "jax"),
)
_STRATEGIES = (("fsdp2", "fsdp2_full"), ("fsdp", "fsdp1_full_shard"), ("ddp", "ddp"))
_PLAIN = {"adamw": "adamw_torch", "fused adamw": "adamw_torch_fused", "torch.optim.adamw": "adamw_torch"}


@dataclass
class Facts:
    """Values under the job's names, and the lines that say them. `problems`: what keeps a path of the job open, as
    (path, sentence without its full stop)."""

    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[str, Quote] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    models: list[Fact] = field(default_factory=list)

    def put(self, path: str, value: object, fact: Fact) -> None:
        """What a line says; a later line replaces an earlier one."""
        self.values[path] = Value(value, quote(fact.name, fact.value))
        self.lines[path] = fact.quote

    def imported(self) -> Imported:
        """As a file of its own."""
        return Imported("log", "the log", dict(self.values))


def facts_of(case: Case) -> Facts:
    """What the log says before the failure, line by line."""
    found = Facts()
    for name, path in _WHOLE.items():
        _one_number(case, name, path, found)
    _sequence(case, found)
    _precision(case, found)
    _training(case, found)
    _framework(case, found)
    found.models = list(_before(case, "model"))
    _total_batch(case, found)
    return found


def gpu_of(case: Case) -> tuple[str, Quote | None]:
    """The name of the failing GPU, as `hardware.names` has it, and the line that names it; "" where none does, or the
    lines name several, or what they name is no GPU of the table."""
    named = [(fact.value, fact.quote) for fact in _before(case, "gpu_name")]
    device = case.failure.device
    named += [(each.name, each.quote) for each in case.evidence.gpus if device is None or each.gpu == device]
    found: dict[str, Quote] = {}
    for name, line in named:
        short = _short_name(name, case)
        if short is None:
            return "", None
        found.setdefault(short, line)
    return next(iter(found.items())) if len(found) == 1 else ("", None)


def _short_name(name: str, case: Case) -> str | None:
    """The GPU of a name; of those that share it (A100), the one whose size is printed."""
    try:
        return gpu_named(name).short_name
    except UsageError:
        capacity = case.failure.numbers.get("capacity_bytes")
        if capacity is None:
            return None
    words = [
        word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in ("nvidia", "gpu", "tesla")
    ]
    fitting = [
        each
        for each in all_gpus()
        if words
        and all(word in re.findall(r"[a-z0-9]+", each.name.lower()) for word in words)
        and each.total_bytes - capacity.slack_bytes - (1 << 20)
        <= capacity.bytes
        <= max(each.total_bytes, each.total_high_bytes) + capacity.slack_bytes + (1 << 20)
    ]
    # SXM and PCIe cards of one size are alike in what the plan asks of a GPU.
    kinds = {(each.capability, each.multiprocessors) for each in fitting}
    return fitting[0].short_name if len(kinds) == 1 else None


def _before(case: Case, name: str) -> Iterator[Fact]:
    """The facts of a name before the failure in the failure's file or, where that has none, in others. What one rank
    prints of the job is true of all."""
    start = case.group.start
    named = case.evidence.facts_named(name)
    own = [fact for fact in named if fact.position.document == start.document and fact.position <= start]
    yield from own or [fact for fact in named if fact.position.document != start.document]


def _one_number(case: Case, name: str, path: str, found: Facts) -> None:
    facts = [fact for fact in _before(case, name) if fact.value.isdigit()]
    values = {int(fact.value) for fact in facts}
    if len(values) > 1:
        shown = ", ".join(str(value) for value in sorted(values))
        found.problems.append((path, f"the log names several values of {name.replace('_', ' ')} ({shown})"))
    elif values and 0 < min(values) < 10**9:
        found.put(path, values.pop(), facts[0])


def _sequence(case: Case, found: Facts) -> None:
    facts = [
        fact
        for fact in _before(case, "sequence_length")
        if fact.value.isdigit() and _LENGTH.search(fact.quote.text)
    ]
    values = {int(fact.value) for fact in facts}
    if len(values) > 1:
        shown = ", ".join(str(value) for value in sorted(values))
        found.problems.append(("batch.sequence", f"the log names several lengths of a sequence ({shown})"))
    elif values and 0 < min(values) < 10**9:
        found.put("batch.sequence", values.pop(), facts[0])


def _precision(case: Case, found: Facts) -> None:
    for fact in _before(case, "mixed_precision"):
        if fact.value in ("no", "fp16", "bf16", "fp8"):
            found.put("given.mixed", fact.value, fact)
    for fact in _before(case, "dtype"):
        if fact.value in ("fp32", "fp16", "bf16"):
            found.put("given.weights", fact.value, fact)
        elif fact.value in ("8bit", "4bit"):
            found.put("given.bits", fact.value, fact)
    for fact in _before(case, "quantization"):
        if fact.value in ("8bit", "4bit"):
            found.put("given.bits", fact.value, fact)


def _training(case: Case, found: Facts) -> None:
    for fact in _before(case, "checkpointing"):
        if fact.value in ("true", "false"):
            found.put("checkpointing.mode", "full" if fact.value == "true" else "none", fact)
    for fact in _before(case, "lora_rank"):
        if fact.value.isdigit() and int(fact.value) > 0:
            found.put("method.lora.rank", int(fact.value), fact)
            found.put("given.lora", True, fact)
    for fact in _before(case, "optimizer"):
        known = OPTIMIZERS.get(_PLAIN.get(fact.value.lower(), fact.value.lower()))
        if known is None:
            problem = f"the optimizer {fact.value[:60]} is not one that the plan knows"
            found.problems.append(("optimizer.name", problem))
            continue
        for part, value in zip(("name", "impl", "state", "offload"), known, strict=True):
            if value not in (None, "none"):
                found.put(f"optimizer.{part}", value, fact)
    for fact in _before(case, "zero_stage"):
        if fact.value in ("1", "2", "3"):
            found.put("parallel.strategy", f"zero{fact.value}", fact)
    for fact in _before(case, "offload"):
        where, _, what = fact.value.partition(":")
        if where not in ("cpu", "nvme"):
            continue
        if what == "optimizer":
            found.put("optimizer.offload", where, fact)
        elif where == "cpu":
            found.put("parallel.offload_parameters", True, fact)
        else:
            found.problems.append(("", "parameters on NVMe are not planned"))


def _framework(case: Case, found: Facts) -> None:
    facts = {fact.value: fact for fact in _before(case, "framework")}
    for name in _OTHERS:
        if name in facts:
            problem = f"{name} trains with code of its own, which its lines alone do not describe"
            found.problems.append(("framework.name", problem))
    for name, called in _FRAMEWORKS:
        if name in facts:
            found.put("framework.name", called, facts[name])
            break
    if "parallel.strategy" not in found.values:
        for name, strategy in _STRATEGIES:
            if name in facts:
                found.put("parallel.strategy", strategy, facts[name])
                break
    for fact in _before(case, "torch_version"):
        found.put("given.version.torch", fact.value, fact)


def _total_batch(case: Case, found: Facts) -> None:
    """The Trainer prints the batch of a step over all ranks: with the other two it gives the number of ranks."""
    if "hardware.gpus" in found.values:
        return
    start = case.group.start
    document = case.evidence.documents[start.document]
    lines = document.lines[: min(start.line, _LINES)]
    index = next((i for i, line in enumerate(lines) if "Total train batch size" in line.text), None)
    match = None if index is None else _TOTAL.search(lines[index].text)
    micro, steps = found.values.get("batch.micro"), found.values.get("batch.accumulation")
    if index is None or match is None or micro is None or steps is None:
        return
    total = int(match[1].replace(",", ""))
    ranks, rest = divmod(total, int(str(micro.value)) * int(str(steps.value)))
    if ranks and not rest:
        said = f"{total} samples per step / ({micro.value} x {steps.value})"
        found.values["hardware.gpus"] = Value(ranks, said)
        found.lines["hardware.gpus"] = document.quote(index)
