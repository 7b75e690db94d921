"""Whole shell scripts and Slurm batch scripts, and the commands that stand at prompts or alone in a text."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats import slurm_options
from oomph.evidence.environment.formats.shell import Shell
from oomph.evidence.environment.formats.shell_lines import MOST_LINES, statements
from oomph.evidence.environment.formats.shell_words import commands
from oomph.evidence.environment.formats.variables import OURS
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Variable
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

_SHEBANG = re.compile(r"#!\s{0,2}\S{0,60}?(?:/|\s)(?:ba|z|da|k|t?c|fi)?sh\b")
_DIRECTIVE = re.compile(r"\s{0,4}#SBATCH\s{1,20}(\S[^\n]{0,1000})$")
_STATEMENT = re.compile(
    r"\s{0,20}(?:export [A-Za-z_]\w*=|set -[aeuxo]|module load |source \S|cd \S|"
    r"(?:[A-Z_][A-Z0-9_]*=\S* ){0,12}(?:torchrun|srun|"
    r"mpirun|deepspeed|accelerate launch|python3? -m torch\.distributed|docker run|python3? \S+\.py)\b|"
    r"ulimit -|conda activate |"
    r"pip3? install )"
)
#: A command that says something although nothing around it is a script.
_ALONE = re.compile(
    r"(?:(?:[A-Z_][A-Z0-9_]*=\S{0,300} ){0,20}(?:sudo )?(?:torchrun|srun|mpirun|deepspeed|accelerate launch|"
    r"python3? -m torch\.distributed\.\w+|docker run|horovodrun|composer) \S"
    r"|export [A-Za-z_]\w*=\S|setenv [A-Za-z_]\w* \S"
    r"|pip3? install \S|(?:[A-Z_][A-Z0-9_]*=\S{0,300} ){1,20}(?:python3?|bash|sh) \S)"
)
#: cmd.exe, PowerShell and IPython: "set A=b", "$env:A = 'b'", "%env A=b".
_OTHER_SHELLS = re.compile(
    r"\s{0,8}(?:set \"?([A-Za-z_]\w{0,100})=([^\"\n]{0,2000}?)\"?|setx? ([A-Za-z_]\w{0,100}) \"?([^\"\n]{1,2000}?)\"?"
    r"|\$env:([A-Za-z_]\w{0,100})\s{0,4}=\s{0,4}[\"']?([^\"'\n]{0,2000}?)[\"']?;?"
    r"|%env ([A-Za-z_]\w{0,100})[= ]([^\n]{0,2000}?))\s{0,20}$",
    re.IGNORECASE,
)
#: So many commands that stand alone in a text are looked at.
_MOST_ALONE = 1_000
_LANGUAGES = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "slurm"})


def is_script(part: Part) -> bool:
    """Is the part a program for a shell, not its output?"""
    head = [line.text for line in part.lines[:400] if line.text.strip()]
    if not head:
        return False
    if part.name.endswith(".env") or part.program in ("env", "printenv", "export", "declare", "set"):
        return False
    if _SHEBANG.match(head[0]) or any(_DIRECTIVE.match(text) for text in head[:80]):
        return True
    if part.whole and part.name.endswith((".sh", ".bash", ".sbatch", ".slurm", ".job")):
        return True
    hits = sum(_STATEMENT.match(text) is not None for text in head)
    if part.language in _LANGUAGES:
        return hits >= 1
    code = [text for text in head if not text.lstrip().startswith("#")]
    return (
        hits >= 2 and hits >= 0.2 * len(code) and not any(text.startswith("declare -x") for text in head[:3])
    )


def parse(part: Part, found: Found) -> bool:
    """Whether it is a script; its variables, launches and installations."""
    if not is_script(part):
        return False
    shell = Shell(part.source, found)
    _directives(part, found, shell)
    shell.run(part)
    slurm = shell.share is not None
    if slurm or shell.told or shell.variables:
        found.take(part.source, "Slurm script" if slurm else "shell script")
    return True


def _directives(part: Part, found: Found, shell: Shell) -> None:
    """The #SBATCH lines, which end where the first command stands."""
    text: list[str] = []
    first: Quote | None = None
    for line in part.lines:
        match = _DIRECTIVE.match(line.text)
        if match is not None:
            first = first or part.quote(line)
            text.append(match[1].partition(" #")[0])
        elif line.text.strip() and not line.text.lstrip().startswith("#"):
            break
    if first is None:
        return
    words = [word for command in commands(" ".join(text), {}) for word in command]
    given = slurm_options.read(words)
    share = shell.share = slurm_options.share(given)
    quote = Quote(first.source, first.line, "#SBATCH " + " ".join(text)[:400])
    shell.exports(given.all("export"), quote)
    if share.gpu_model:
        found.add("expected_gpus", share.gpu_model, quote)
    found.add_launch(share.launch("sbatch", quote))
    shell.told += 1
    for name, value in (
        ("SLURM_NNODES", share.nodes),
        ("SLURM_JOB_NUM_NODES", share.nodes),
        ("SLURM_NTASKS", share.tasks),
        ("SLURM_NPROCS", share.tasks),
        ("SLURM_NTASKS_PER_NODE", share.tasks_per_node),
        ("SLURM_GPUS_ON_NODE", share.gpus_on_node),
        ("SLURM_GPUS_PER_NODE", share.gpus),
        ("SLURM_CPUS_PER_TASK", share.cpus_per_task),
    ):
        shell.define(name, None if value is None else str(value))


class Session:
    """The commands of one file's prompts, and those that stand alone in its text: one shell for all of them."""

    def __init__(self, source: str, found: Found) -> None:
        self._shell = Shell(source, found)
        self._found = found

    def parse(self, part: Part) -> None:
        """The command that the part answers, and commands among its lines."""
        before = self._shell.told
        if part.command is not None:
            line = part.command.line
            self._other_shell(part.command.text, Quote(part.source, line.number, part.command.text[:400]))
            self._shell.line(part.command.text, Quote(part.source, line.number, part.command.text[:400]))
        for line in part.lines[:MOST_LINES]:
            if ("env" in line.text or "set" in line.text[:12].lower()) and len(line.text) < 2_400:
                self._other_shell(line.text, part.quote(line))
        following = 0
        left = _MOST_ALONE
        for index, line in enumerate(part.lines[:MOST_LINES]):
            if (
                left
                and index >= following
                and len(line.text) < 4_000
                and _ALONE.match(line.text.lstrip()) is not None
            ):
                text, quote = next(statements(part, index), ("", part.quote(line)))
                self._shell.line(text.strip(), quote)
                left -= 1
                following = index + 1 + text.count("\n")
        if self._shell.told > before:
            self._found.take(part.source, "commands")

    def _other_shell(self, text: str, quote: Quote) -> None:
        match = _OTHER_SHELLS.match(text)
        if match is None:
            return
        name, value = [one for one in match.groups() if one is not None]
        if OURS.match(name) is not None:
            known = None if "%" in value or "$" in value else value
            self._found.add_variable(Variable(name, known, "script", quote))
            self._found.take(quote.source, "commands")
