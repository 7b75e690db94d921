"""Command lines and the shell scripts around them: the launcher, the script, and its `--flags`.

Assignments and arrays of the script (`TP=8`, `ARGS=(--num-layers 96)`) are put in where it uses them; nothing is run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LAUNCHERS = (
    "torchrun",
    "accelerate",
    "deepspeed",
    "srun",
    "mpirun",
    "python",
    "python3",
    "llamafactory-cli",
    "axolotl",
    "litgpt",
    "tune",
    "trl",
)
_LOOKS = re.compile(
    r"(?m)^[ \t]*(?:[A-Z_]\w{0,80}=\S{0,500}[ \t]+|exec[ \t]+|nohup[ \t]+|uv run[ \t]+|\"?\$\S{0,80}[ \t]+){0,20}"
    r"(?:\S{0,200}/)?(?:torchrun|accelerate[ \t]+launch|deepspeed[ \t]|srun[ \t]|mpirun[ \t]|python3?[ \t]|"
    r"llamafactory-cli[ \t]|axolotl[ \t]|litgpt[ \t]|tune[ \t]+run|trl[ \t])"
)
#: `python -m` of these is a launcher.
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_FLAGS = re.compile(r"(?:^|[\s(\"'])--[a-z][\w\-.]+")
_ASSIGN = re.compile(r"^\s*(?:export\s+|local\s+|readonly\s+|declare\s+-a\s+)?([A-Za-z_]\w{0,80})(\+?)=(.*)$")
_SBATCH = re.compile(r"^#SBATCH[ \t]+(.{1,300})$", re.MULTILINE)
_USE = re.compile(r"\$\{?([A-Za-z_]\w{0,80}|\d)(?:\[@\]|\[\*\])?(?::?[-=]([^}\n]{0,200}))?\}?")
_PRODUCT = re.compile(r"\$\(\(\s*([\w$*{}\s]{1,100})\)\)")
#: How a line begins that can be a command with a variable in front.
_STARTS = ("--", "$", '"$')
_PAIR = re.compile(r"[A-Za-z_][\w.]{0,100}=")
_LARGEST = 200_000
#: Variables of a script put together, and a line with them put in.
_LONGEST = 40_000
_MOST_COMMANDS = 50


@dataclass(frozen=True)
class Command:
    """A command line. `launcher` as torchrun; `launch` its own flags; `script` what it runs; `flags` the script's
    flags ("--a-b" as a_b; a flag without a value is True; one with several a list); `words` the rest; `variables`
    the environment; `conditional` arguments that a script adds in one case only (they are in no flags)."""

    launcher: str
    script: str
    launch: Mapping[str, object]
    flags: Mapping[str, object]
    words: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    conditional: tuple[str, ...] = ()


def find(text: str) -> Command | None:
    """The first command of a text that trains something, by its flags; None where none does."""
    if len(text) > _LARGEST or not _FLAGS.search(text):
        return None
    if not _LOOKS.search(text) and not text.lstrip().startswith("--"):
        return None
    variables, commands, conditional = _script(text)
    best: Command | None = None
    for tokens in commands:
        command = _command(tokens, variables, tuple(conditional))
        if best is None or len(command.flags) + len(command.launch) > len(best.flags) + len(best.launch):
            best = command
    return best if best is not None and (best.flags or best.launch or best.words) else None


def _script(text: str) -> tuple[dict[str, str], list[list[str]], list[str]]:
    """Variables of a script, its commands with them put in, and the arguments that only a condition adds."""
    variables = _slurm(text)
    commands: list[list[str]] = []
    conditional: list[str] = []
    inside = total = 0
    lines = iter(re.sub(r"\\\r?\n", " ", text).splitlines())
    for line in lines:
        word = line.split(None, 1)[0].rstrip(";") if line.strip() else ""
        inside = max(0, inside + (word in ("if", "case")) - (word in ("fi", "esac")))
        assigned = _ASSIGN.match(line)
        if assigned is not None and (assigned.group(3).startswith("(") or not _LOOKS.match(line)):
            name, adds = assigned.group(1), bool(assigned.group(2))
            value = _filled(_assigned(assigned.group(3), lines), variables)
            if inside and (adds or name in variables):
                if "--" in value and value != variables.get(name):
                    conditional.append(value)
            else:
                variables[name] = f"{variables.get(name, '')} {value}".strip() if adds else value
            total += len(value)
            if total > _LONGEST:
                break
            continue
        if len(commands) >= _MOST_COMMANDS or (
            not line.lstrip().startswith(_STARTS) and not _LOOKS.match(line)
        ):
            continue
        filled = _filled(_uncommented(line), variables)
        if _LOOKS.match(filled) or filled.lstrip().startswith("--"):
            tokens = _split(filled)
            if tokens:
                commands.append(tokens)
    return variables, commands, conditional


def _slurm(text: str) -> dict[str, str]:
    """What Slurm sets for the script, by its `#SBATCH` lines."""
    words = [word for match in _SBATCH.finditer(text) for word in match.group(1).split()[:4]]
    flags = {key: str(value) for key, value in flags_of(words).items() if isinstance(value, str)}
    nodes = flags.get("nodes", flags.get("N", "1" if flags else "")).split("-")[0]
    tasks = flags.get("ntasks_per_node", "")
    gpus = flags.get("gpus_per_node", flags.get("gres", "")).rsplit(":", 1)[-1]
    total = flags.get("ntasks", flags.get("n", ""))
    if not tasks and total.isdigit() and nodes.isdigit() and int(nodes) > 0 and len(total) < 9:
        tasks = str(int(total) // int(nodes))
    found = {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS_PER_NODE": tasks,
        "SLURM_GPUS_ON_NODE": gpus,
        "SLURM_GPUS_PER_NODE": gpus,
    }
    return {name: value for name, value in found.items() if value.isdigit() and len(value) < 9}


def _assigned(value: str, lines: Iterator[str]) -> str:
    """The right side of an assignment: an array, a quoted text (both may go on over lines), or a word."""
    if value.startswith("("):
        value = _uncommented(value)
        while ")" not in value:
            more = next(lines, None)
            if more is None:
                break
            value += " " + _uncommented(more)
        return value.strip()[1:].rsplit(")", 1)[0]
    if value[:1] in ("'", '"') and value.count(value[0]) == 1:
        quote = value[0]
        for more in lines:
            value += " " + more
            if quote in more:
                break
        return value.strip().strip(quote)
    return _uncommented(value).strip().rstrip(";").strip("'\"")


def _uncommented(line: str) -> str:
    return re.sub(r"(?:^|\s)#.*$", "", line)


def _filled(text: str, variables: Mapping[str, str]) -> str:
    """Text with the variables that are known put in; sizes stay limited."""
    out = _USE.sub(
        lambda m: variables.get(m.group(1), m.group(0) if m.group(2) is None else m.group(2)), text
    )
    out = _PRODUCT.sub(lambda m: _product(m.group(1), variables) or m.group(0), out)
    return out if len(out) <= _LONGEST else text


def _product(text: str, variables: Mapping[str, str]) -> str:
    result = 1
    for part in text.split("*"):
        number = variables.get(part.strip(" ${}"), part.strip())
        if not re.fullmatch(r"\d{1,12}", number):
            return ""
        result *= int(number)
    return str(result) if result < 10**18 else ""


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def _command(tokens: list[str], variables: Mapping[str, str], conditional: tuple[str, ...]) -> Command:
    environment: dict[str, str] = {}
    place = 0
    while place < len(tokens) and ("=" in tokens[place].split("/")[0] and not tokens[place].startswith("-")):
        name, _, value = tokens[place].partition("=")
        environment[name] = value
        place += 1
    while place < len(tokens) and (
        tokens[place] in ("exec", "nohup", "sudo", "uv", "run", "$") or tokens[place][:1] == "$"
    ):
        place += 1
    rest = tokens[place:]
    launcher = rest[0].rsplit("/", 1)[-1] if rest and not rest[0].startswith("-") else ""
    after = rest[1:] if launcher else rest
    if launcher in ("python", "python3") and after[:1] == ["-m"] and after[1:2] and after[1] in _MODULES:
        launcher, after = _MODULES[after[1]], after[2:]
    if launcher in ("srun", "mpirun", "python", "python3"):
        inner = next((n for n, t in enumerate(after) if t.rsplit("/", 1)[-1] in _LAUNCHERS[:3]), None)
        if inner is not None:
            launcher, after = after[inner].rsplit("/", 1)[-1], after[inner + 1 :]
    split = _script_at(after, launcher)
    launch = flags_of(after[:split])
    script = after[split] if split < len(after) else ""
    own = after[split + 1 :] if split < len(after) else []
    if launcher in ("", "python", "python3", "srun", "mpirun") and not script:
        launch, own = {}, after
    words = _words(own)
    exported = {k: v for k, v in variables.items() if k.isupper() and len(v) < 200}
    return Command(launcher, script, launch, flags_of(own), words, {**exported, **environment}, conditional)


def _words(tokens: list[str]) -> tuple[str, ...]:
    """What is no flag and no flag's value: words before the first flag, and `key=value`."""
    first = next((n for n, token in enumerate(tokens) if token.startswith("-")), len(tokens))
    return (*tokens[:first], *(t for t in tokens[first:] if _PAIR.match(t)))


def _script_at(tokens: list[str], launcher: str) -> int:
    """Where the launcher's own flags end: at the first word that is a script or module and no flag's value."""
    if launcher in ("llamafactory-cli", "axolotl", "litgpt", "trl"):
        return 0
    start = 1 if launcher in ("accelerate", "tune") and tokens[:1] in (["launch"], ["run"]) else 0
    for place in range(start, len(tokens)):
        token = tokens[place]
        before = tokens[place - 1] if place else ""
        if token.endswith((".py", ".sh")) or (before in ("-m", "--module") and "." in token):
            return place
        if (
            launcher == "tune"
            and not token.startswith("-")
            and not (before.startswith("--") and "=" not in before)
        ):
            return place
        if "$" in token and not before.startswith("-"):
            return place
    return len(tokens)


def flags_of(tokens: list[str]) -> dict[str, object]:
    """`--a 1 --b=2 --c --d 3 4` as a table: {"a": "1", "b": "2", "c": True, "d": ["3", "4"]}."""
    found: dict[str, object] = {}
    name = ""
    # `"--fp8-format hybrid"` of an array is one word of the shell and two of the command.
    for token in (
        part for t in tokens for part in (t.split() if t.lstrip().startswith("--") and " " in t else [t])
    ):
        if re.match(r"--?[A-Za-z]", token):
            name, equals, value = token.lstrip("-").partition("=")
            name = name.replace("-", "_")
            found[name] = value if equals else True
            if equals:
                name = ""
        elif name and not (found[name] is not True and _PAIR.match(token)):
            held = found[name]
            found[name] = (
                token if held is True else [*held, token] if isinstance(held, list) else [held, token]
            )
    return found
