"""How the job is spread: launcher, frameworks, world size, ZeRO stage and offload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text
from oomph.evidence.model import Document, Fact

#: Text (lower case, forward slashes) of a frame's path or a log line -> framework.
_FRAMEWORKS: tuple[tuple[str, str], ...] = (
    ("/transformers/", "transformers"),
    ("/trl/", "trl"),
    ("/accelerate/", "accelerate"),
    ("/pytorch_lightning/", "lightning"),
    ("/lightning/", "lightning"),
    ("/lightning_fabric/", "lightning"),
    ("/deepspeed/", "deepspeed"),
    ("/megatron/", "megatron"),
    ("/torchtune/", "torchtune"),
    ("/torchtitan/", "torchtitan"),
    ("/diffusers/", "diffusers"),
    ("/peft/", "peft"),
    ("/bitsandbytes/", "bitsandbytes"),
    ("/unsloth/", "unsloth"),
    ("/colossalai/", "colossalai"),
    ("/nemo/", "nemo"),
    ("/axolotl/", "axolotl"),
    ("/llamafactory/", "llamafactory"),
    ("/fairseq/", "fairseq"),
    ("/mmengine/", "mmengine"),
    ("/detectron2/", "detectron2"),
    ("/monai/", "monai"),
    ("/ultralytics/", "ultralytics"),
    ("/vllm/", "vllm"),
    ("/sglang/", "sglang"),
    ("/verl/", "verl"),
    ("/openrlhf/", "openrlhf"),
    ("/fsdp/_fully_shard/", "fsdp2"),
    ("fully_sharded_data_parallel.py", "fsdp"),
    ("/fsdp/_flat_param.py", "fsdp"),
    ("/fsdp/_runtime_utils.py", "fsdp"),
    ("/nn/parallel/distributed.py", "ddp"),
)
#: The same from log lines that are no paths.
_BANNERS: tuple[tuple[str, str], ...] = (
    ("[info|trainer.py", "transformers"),
    ("unsloth: ", "unsloth"),
    ("==((====))==  unsloth", "unsloth"),
    ("[stage3.py", "deepspeed"),
    ("[stage_1_and_2.py", "deepspeed"),
    ("deepspeed info", "deepspeed"),
    ("info colossalai", "colossalai"),
    ("mmengine - ", "mmengine"),
    ("d2.engine", "detectron2"),
    ("with fsdp2", "fsdp2"),
    ("[titan]", "torchtitan"),
    ("`trainer.fit` stopped", "lightning"),
)
_LAUNCHERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "deepspeed",
        re.compile(
            r"WORLD INFO DICT|sigkill_handler|"
            r"(?:^|[\s$+])deepspeed (?=--|\S{1,200}\.py)(?:\S{1,80} ){0,20}?\S{1,200}\.py\b"
        ),
    ),
    ("accelerate", re.compile(r"\baccelerate launch\b|accelerate[/\\.]commands[/\\.]launch\b")),
    (
        "torchrun",
        re.compile(
            r"torch\.distributed\.elastic\.multiprocessing\.api|torch/distributed/elastic/multiprocessing/api|"
            r"torch[/\\]distributed[/\\]run\.py|torch\.distributed\.(?:run|launch)\b|(?:^|[\s/$+])torchrun\s"
        ),
    ),
    ("srun", re.compile(r"^srun: |slurmstepd: |(?:^|[\s$+])srun -")),
    ("ray", re.compile(r"\bray\.exceptions\.|^\(raylet|\bray::\w")),
    (
        "spawn",
        re.compile(r"torch[/\\]multiprocessing[/\\]spawn\.py|torch\.multiprocessing\.spawn|\bmp\.spawn\b"),
    ),
)
_INFO_DICT = re.compile(r"WORLD INFO DICT: \{([^{}]{0,20000})\}")
_WORLD = re.compile(
    r"\bdist_world_size=(\d{1,6})\b|\bMEMBER: \d{1,6}/(\d{1,6})\b|\bStarting with (\d{1,6}) processes\b|"
    r"\[launch(?:er)?\] (\d{1,6}) (?:workers|processes)\b|\bprocess \d{1,6} of (\d{1,6}) on (?:cuda|gpu)|"
    r"\b[Nn]um processes: (\d{1,6})\s*$|--num[_-]processes[= ](\d{1,6})\b|\brank \d{1,6}/(\d{1,6})\b|"
    r"\b(?:[Ll]aunch|[Ss]tart|[Ss]pawn|accelerate)[^\n]{0,40}?[ =](\d{1,6}) (?:processes|ranks)\b"
)
_NODES = re.compile(r"\b(\d{1,5}) nodes? x (\d{1,3})\b")
_NPROC = re.compile(r"--nproc[_-]per[_-]node[= ](\d{1,5})\b")
_NNODES = re.compile(r"--nnodes[= ](\d{1,5})(?![\d:])")
_PROCESSES = re.compile(r"^num_processes: (\d{1,6})\s*$")
_CREATING = re.compile(r"ZeRO stage (\d) optimizer")
_STAGE3 = re.compile(r"[\[/\\]stage3\.py")
_ZERO_INLINE = re.compile(
    r"zero(?:_optimization|_config)['\"]?[^\n]{0,40}?\bstage['\"]?\s?[:=]\s?<?(?:ZeroStageEnum\.\w{1,20}: )?([0-3])\b"
)
_ZERO_HEAD = re.compile(r"['\"]?zero_optimization['\"]?\s{0,3}[:=]\s{0,3}\{?\s*$")
_ZERO_STAGE = re.compile(r"\s*['\"]?stage['\"]?\s{0,3}[:=]\s{0,3}([0-3])\b")
_OFFLOAD = re.compile(
    r"offload_(param|optimizer)['\"]?\s?[:=][^\n}]{0,80}?device['\"]?\s?[:=]\s?['\"<]?(?:OffloadDeviceEnum\.)?(cpu|nvme)\b"
)
_OFFLOAD_FLAT = re.compile(r"offload_(param|optimizer)_device['\"]?\s{0,3}[:=]\s{0,3}['\"]?(cpu|nvme)\b")
_OFFLOAD_HEAD = re.compile(r"['\"]?offload_(param|optimizer)['\"]?\s{0,3}[:=]\s{0,3}\{?\s*$")
_OFFLOAD_DEVICE = re.compile(r"\s*['\"]?device['\"]?\s{0,3}[:=]\s{0,3}['\"]?(cpu|nvme)\b")
_CPU_OFFLOAD = re.compile(r"\bCPU Offload: True\b")
_FSDP_OFFLOAD = re.compile(
    r"CPUOffload\(offload_params=True\)|fsdp_offload_params['\"]?\s?[:=]\s?['\"]?[Tt]rue|CPUOffloadPolicy\("
)


def parse(document: Document) -> list[Fact]:
    """launcher, framework (each once), world_size, zero_stage, offload ("cpu:optimizer", "nvme:param")."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    seen: set[tuple[str, str]] = set()
    for index in indices:
        text = document.lines[index].text
        low = text.lower()
        for pair in _names(text, low):
            if pair not in seen:
                seen.add(pair)
                yield fact(document, index, pair[0], pair[1])
        if is_failure_text(low):
            continue
        size = _world_size(text) or _accelerate_config(document, index, text)
        if size:
            yield fact(document, index, "world_size", size)
        if "zero" in low or "stage3" in low or "offload" in low:
            for pair in _zero(document, index, text):
                if pair not in seen or pair[0] == "zero_stage":
                    seen.add(pair)
                    yield fact(document, index, pair[0], pair[1])
    if (
        any(line.stream.startswith("ray:") for line in document.lines[:2000])
        and ("launcher", "ray") not in seen
    ):
        first = next(i for i, line in enumerate(document.lines) if line.stream.startswith("ray:"))
        yield fact(document, first, "launcher", "ray")


def _names(text: str, low: str) -> Iterator[tuple[str, str]]:
    for name, pattern in _LAUNCHERS:
        if pattern.search(text):
            yield "launcher", name
    if ".py" in low:
        path = low.replace("\\", "/")
        for part, framework in _FRAMEWORKS:
            if part in path:
                yield "framework", framework
    for part, framework in _BANNERS:
        if part in low:
            yield "framework", framework


def _world_size(text: str) -> str | None:
    match = _INFO_DICT.search(text)
    if match:
        ranks = sum(len(part.split(",")) for part in re.findall(r"\[([\d, ]+)\]", match[1]))
        return str(ranks) if ranks else None
    match = _NODES.search(text)
    if match:
        return str(int(match[1]) * int(match[2])) if int(match[1]) and int(match[2]) else None
    match = _NPROC.search(text)
    if match:
        nodes = _NNODES.search(text)
        if nodes or "nnodes" not in text:
            return str(int(match[1]) * int(nodes[1] if nodes else 1)) if int(match[1]) else None
        return None
    match = _WORLD.search(text)
    if match:
        printed = next(group for group in match.groups() if group)
        return str(int(printed)) if int(printed) else None
    return None


def _accelerate_config(document: Document, index: int, text: str) -> str | None:
    """`num_processes: 8` of Accelerate's config file, which begins with the distributed type."""
    match = _PROCESSES.match(text)
    if match is None or not int(match[1]):
        return None
    above = document.lines[max(0, index - 40) : index]
    return str(int(match[1])) if any("distributed_type:" in line.text for line in above) else None


def _zero(document: Document, index: int, text: str) -> Iterator[tuple[str, str]]:
    match = _CREATING.search(text) or _ZERO_INLINE.search(text)
    if match:
        yield "zero_stage", match[1]
    elif _STAGE3.search(text):
        yield "zero_stage", "3"
    elif _ZERO_HEAD.search(text):
        for line in document.lines[index + 1 : index + 12]:
            stage = _ZERO_STAGE.match(line.text)
            if stage:
                yield "zero_stage", stage[1]
                break
    for what, device in _OFFLOAD.findall(text) + _OFFLOAD_FLAT.findall(text):
        yield "offload", f"{device}:{what}"
    head = _OFFLOAD_HEAD.search(text)
    if head:
        for line in document.lines[index + 1 : index + 5]:
            found = _OFFLOAD_DEVICE.match(line.text)
            if found:
                yield "offload", f"{found[1]}:{head[1]}"
                break
    if _CPU_OFFLOAD.search(text):
        yield "offload", "cpu:optimizer"
    if _FSDP_OFFLOAD.search(text):
        yield "offload", "cpu:param"


PRINTER = Printer(
    (
        *(part for part, _ in _FRAMEWORKS),
        *(part.replace("/", "\\") for part, _ in _FRAMEWORKS if "/" in part),
        *(part for part, _ in _BANNERS),
        "deepspeed",
        "world info dict",
        "sigkill_handler",
        "accelerate",
        "torch.distributed",
        "torch/distributed/",
        "torch\\distributed\\",
        "torchrun",
        "srun",
        "slurmstepd",
        "ray.exceptions",
        "(raylet",
        "ray::",
        "multiprocessing/spawn.py",
        "multiprocessing\\spawn.py",
        "multiprocessing.spawn",
        "mp.spawn",
        "dist_world_size",
        "member: ",
        "starting with",
        "[launch",
        "process ",
        "processes",
        "rank ",
        "nodes x",
        "node x",
        "nproc",
        "zero",
        "stage3.py",
        "offload",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
