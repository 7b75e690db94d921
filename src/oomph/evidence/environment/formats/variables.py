"""Dumps of environment variables: `env`, `printenv`, `set`, `export -p`, /proc/PID/environ, .env files, and single
lines that can be nothing else (NCCL_DEBUG=INFO). A dump that names its rank gives it to all of its variables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Variable
from oomph.evidence.environment.parts import Part, container_host
from oomph.evidence.model import Line, Quote

_ASSIGNED = re.compile(
    r"(declare -[a-zA-Z-]{1,6} |export |typeset -x )?([A-Za-z_][A-Za-z0-9_]{0,127})=(.*)$", re.DOTALL
)
_PAIR = re.compile(r"(['\"])([A-Za-z_]\w{0,127})\1: (['\"])((?:(?!\3)[^\\\n]|\\.){0,8000})\3")
_PROGRAMS = frozenset({"env", "printenv", "export", "set", "declare"})
#: Variables that every process has: where they stand, the text is a dump.
_EVERYWHERE = frozenset(
    {"PATH", "HOME", "PWD", "SHELL", "USER", "HOSTNAME", "SHLVL", "TERM", "LANG", "_", "OLDPWD"}
)
#: Names that stand alone on a line only as variables.
OURS = re.compile(
    r"(?:NCCL|TORCH|PYTORCH|CUDA|NVIDIA|CUDNN|CUBLAS|OMP|MKL|HF|TRANSFORMERS|ACCELERATE|FSDP|DEEPSPEED|SLURM|GLOO|UCX|FI|"
    r"VLLM|RAY|KUBERNETES|OMPI|PMI|PMIX|MASTER|XLA|TPU|NUMBA|TRITON|ROCR|HIP|HSA|SHARP|RDMAV|LD|DS)_[A-Z0-9_]{1,100}\Z"
    r"|(?:LOCAL_|GROUP_|NODE_|GLOBAL_)?RANK\Z|(?:LOCAL_)?WORLD_SIZE\Z|NNODES\Z|NPROC_PER_NODE\Z|PJRT_DEVICE\Z"
)
_ONE_VALUE = re.compile(r"[^\s\"']*|\"[^\"]*\"(?:\s+#.*)?|'[^']*'(?:\s+#.*)?")
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "LOCAL_RANK")


@dataclass
class _Dump:
    """One process's variables."""

    rows: list[tuple[str, str, Quote, int | None]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def parse(part: Part, found: Found) -> None:
    """Variables with scope "process", and what they say of host, container and WSL."""
    _mapping(part, found)
    rows = [(line, match) for line in part.lines if (match := _match(line)) is not None]
    if not rows:
        return
    whole = _is_dump(part, [match[2] for _, match in rows])
    dumps = [_Dump()]
    for line, match in rows:
        name, value = match[2], _unquoted(match[3])
        # A line that exports is a command: `scripts` reads those.
        if not whole and ((match[1] or "").startswith("export") or not _alone(name, match[3])):
            continue
        if name in dumps[-1].names and (name in _RANKS or name in _EVERYWHERE):
            dumps.append(_Dump())
        dumps[-1].names.add(name)
        dumps[-1].rows.append((name, value, part.quote(line), line.rank))
    for dump in dumps:
        _keep(part, found, dump)


def _mapping(part: Part, found: Found) -> None:
    """`print(os.environ)`, or its items as JSON."""
    for line in part.lines:
        text = line.text
        if "environ({" not in text and not ('"PATH": "' in text and text.lstrip()[:1] == "{"):
            continue
        dump = _Dump()
        for pair in _PAIR.finditer(text[:200_000]):
            dump.rows.append((pair[2], pair[4], part.quote(line), line.rank))
        _keep(part, found, dump)


def _match(line: Line) -> re.Match[str] | None:
    if "=" not in line.text or len(line.text) > 8_000:
        return None
    return _ASSIGNED.match(line.text.lstrip())


def _is_dump(part: Part, names: list[str]) -> bool:
    if part.program in _PROGRAMS or part.name.endswith(".env") or part.name.startswith((".env", "environ")):
        return True
    upper = sum(name.isupper() for name in names)
    filled = sum(bool(line.text.strip()) for line in part.lines)
    everywhere = len(_EVERYWHERE.intersection(names))
    if everywhere >= 3 and upper >= 5:
        return True
    return upper >= 2 and upper == len(names) and len(names) >= 0.8 * filled


def _alone(name: str, value: str) -> bool:
    """Is the line a variable although nothing around it is? A command line that begins with one is not."""
    return OURS.match(name) is not None and _ONE_VALUE.fullmatch(value.strip()) is not None


def _unquoted(value: str) -> str:
    value = value.strip()
    if value.startswith("$'") and value.endswith("'"):
        return value[2:-1]
    if len(value) >= 2 and value[0] in "\"'":
        end = value.find(value[0], 1)
        if end > 0 and (end == len(value) - 1 or value[end + 1 :].lstrip().startswith("#")):
            return value[1:end].replace('\\"', '"').replace("\\$", "$") if value[0] == '"' else value[1:end]
    return value


def _keep(part: Part, found: Found, dump: _Dump) -> None:
    rank = part.rank
    printed = part.program in ("env", "printenv") or len(_EVERYWHERE & {row[0] for row in dump.rows}) >= 3
    for name in _RANKS:
        told = next((value for held, value, _, _ in dump.rows if held == name), None)
        if told is not None and told.isdigit() and len(told) < 7:
            rank = int(told)
            break
    for name, value, quote, line_rank in dump.rows:
        found.take(part.source, "environment variables")
        # `env` prints what there is; a file of settings may hold references that are not expanded.
        known = None if not printed and re.search(r"\$\{?[A-Za-z_]", value) else value
        found.add_variable(
            Variable(name, known, "process", quote, rank=line_rank if line_rank is not None else rank)
        )
        _surroundings(found, name, value, quote)


def _surroundings(found: Found, name: str, value: str, quote: Quote) -> None:
    if name == "HOSTNAME" and value:
        found.tell("hostname", value, quote)
        if container_host(value):
            found.tell("container", "Docker", quote)
    elif name == "KUBERNETES_SERVICE_HOST":
        found.tell("container", "Kubernetes", quote)
    elif name == "NVIDIA_DRIVER_CAPABILITIES":
        found.tell("container", "an image that asks for GPUs", quote)
    elif name == "container":
        found.tell("container", value, quote)
    elif name in ("WSL_DISTRO_NAME", "WSLENV", "WSL_INTEROP"):
        found.tell("wsl", True, quote)
    elif name in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        found.tell("container", "Apptainer", quote)
    elif name == "NVIDIA_PYTORCH_VERSION" and value:
        found.tell("container", f"NVIDIA's PyTorch image {value}", quote)
    elif name in ("COLAB_GPU", "COLAB_RELEASE_TAG"):
        found.tell("container", "Colab", quote)
    elif name == "KAGGLE_KERNEL_RUN_TYPE":
        found.tell("container", "Kaggle", quote)
