"""Which process ids belong to the job's ranks, and which to an inference engine that shares their cards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact
from oomph.evidence.model import Document, Fact, Position, Quote

_RANK_PID = re.compile(
    r"(?:\b|_|\b(local)[_ ]?)rank[ =:]{1,2}(\d{1,6})\]?,?:? {1,3}\(?pid[ =:]{1,2}(\d{1,10})\b", re.IGNORECASE
)
_PID_RANK = re.compile(r"\[PID:(\d{1,10})\] \[RANK:(\d{1,6})\]")  # axolotl
#: A word of the line, and where the pid stands.
_PATTERNS = (
    ("local_rank: ", re.compile(r"\blocal_rank: \d{1,6} \(pid: (\d{1,10})\)")),  # torchelastic
    ("exitcode ", re.compile(r"\bexitcode +: -?\d{1,5} \(pid: (\d{1,10})\)")),
    ("closing signal", re.compile(r"\bSending process (\d{1,10}) closing signal\b")),
    ("Killing subprocess", re.compile(r"\bKilling subprocess (\d{1,10})\b")),  # DeepSpeed
    ("spawned with", re.compile(r"\bprocess (\d{1,10}) spawned with command\b")),
    # host:pid:thread [device] NCCL INFO; a WARN may begin with a timestamp and names its source line
    (
        "NCCL ",
        re.compile(
            r"(?:\[[\d :.-]{10,30}\] )?[\w.-]{1,80}:(\d{1,10}):\d{1,10} \[\d{1,3}\] "
            r"(?:\S{1,80}:\d{1,6} )?NCCL (?:INFO|WARN)"
        ),
    ),
)
_ACTOR = re.compile(r"\(([A-Za-z_]\w{0,80})(?: [\w ]{1,20})? pid=(\d{1,10})(?:, ip=[\w.:]{1,60})?\)")
_ENGINE = re.compile(
    r"vllm|sglang|llmray|llm_?engine|llm_?server|enginecore|inference_?(?:engine|worker)|trtllm",
    re.IGNORECASE,
)
_ROLLOUT = re.compile(r"rollout", re.IGNORECASE)
_TRAINER = re.compile(
    r"train|policy_?worker|actor_?worker|actor_?model|critic|fsdp|megatron|learner|worker_?dict|actor_?rollout",
    re.IGNORECASE,
)
_UTILIZATION = re.compile(
    r"(?:gpu_memory_utilization|mem_fraction_static)['\"]?\s{0,3}(?:=|:|\()?\s{0,3}\(?(0?\.\d{1,4}|1\.0)\b"
)
_ADVICE = re.compile(r"\btry\b|\b(?:in|de)creas|\blower|\breduc|\bconsider|\bset(?:ting)? ", re.IGNORECASE)


def parse(document: Document) -> list[Fact]:
    """rank_pid, engine_pid (each pid once) and engine_utilization (as printed, 0 to 1)."""
    return [*actors(document), *_SCANNER.run(document)]


def actors(document: Document) -> Iterator[Fact]:
    """Ray's actors, whose prefix the reader has moved to Line.stream ("ray:Name:pid")."""
    seen: set[str] = set()
    for index, line in enumerate(document.lines):
        stream = line.stream
        if stream and stream not in seen and stream.startswith("ray:"):
            seen.add(stream)
            _, name, pid = (*stream.split(":"), "", "")[:3]
            kind = role(name)
            if kind and pid.isdigit():
                quote = Quote(document.source, line.number, f"({name} pid={pid}) {line.text.strip()}")
                yield Fact(kind, pid, Position(document.index, index), quote, line.rank)


def role(actor: str) -> str:
    """`engine_pid`, `rank_pid` or nothing for the class name of an actor. One that does both is a rank."""
    if _ENGINE.search(actor):
        return "engine_pid"
    if _TRAINER.search(actor):
        return "rank_pid"
    return "engine_pid" if _ROLLOUT.search(actor) and "actor" not in actor.lower() else ""


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    seen: set[tuple[str, str]] = set()
    for index in indices:
        text = document.lines[index].text
        for name, pid, rank in _pids(text):
            if (name, pid) not in seen:
                seen.add((name, pid))
                yield fact(document, index, name, pid, rank)
        match = _UTILIZATION.search(text)
        if match and not _ADVICE.search(text, 0, match.start()):
            yield fact(document, index, "engine_utilization", match[1])


def _pids(text: str) -> Iterator[tuple[str, str, int | None]]:
    if "pid" in text:
        for local, rank, pid in _RANK_PID.findall(text):
            yield "rank_pid", pid, None if local else int(rank)
    if "[PID:" in text:
        for pid, rank in _PID_RANK.findall(text):
            yield "rank_pid", pid, int(rank)
    for word, pattern in _PATTERNS:
        if word in text:
            match = pattern.match(text) if word == "NCCL " else pattern.search(text)
            if match:
                yield "rank_pid", match[1], None
    if " pid=" in text:
        for actor, pid in _ACTOR.findall(text):
            kind = role(actor)
            if kind:
                yield kind, pid, None


PRINTER = Printer(
    (
        "pid",
        "closing signal",
        "killing subprocess",
        "spawned with command",
        "nccl info",
        "nccl warn",
        "gpu_memory_utilization",
        "mem_fraction_static",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
