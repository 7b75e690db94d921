"""Shell scripts, and the commands of prompts, Dockerfiles and manifests: variables they set, what they start.

Statements are read in their order, all branches of an `if` or a `case` as if they ran; behind it, a variable to which
they gave different values is unknown. Loop variables, arguments and the output of commands are unknown, too. Launches
come outermost first: srun before the torchrun that it starts, with the same quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from oomph.evidence.environment.formats import docker_run, images, installs, launchers, slurm_options
from oomph.evidence.environment.formats.shell_branches import Branches
from oomph.evidence.environment.formats.shell_lines import statements
from oomph.evidence.environment.formats.shell_words import (
    LONGEST_VALUE,
    UNKNOWN,
    Word,
    commands,
    expanded,
    known,
)
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Launch, Variable
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "time", "eval", "&&"}
)
#: They run what stands behind their own options.
_WRAPPERS = frozenset(
    [
        "sudo",
        "exec",
        "nohup",
        "nice",
        "ionice",
        "numactl",
        "stdbuf",
        "timeout",
        "setsid",
        "command",
        "catchsegv",
        "xvfb-run",
        "nsys",
        "ncu",
        "strace",
        "taskset",
        "uv",
        "poetry",
        "pdm",
        "pipenv",
        "pixi",
        "conda",
        "mamba",
        "micromamba",
        "hatch",
        "singularity",
        "apptainer",
        "gosu",
        "tini",
        "dumb-init",
        "chronic",
        "script",
        "unbuffer",
        "enroot",
    ]
)
_LAUNCHERS = frozenset(
    [
        "torchrun",
        "torchrun-hpc",
        "torch.distributed.run",
        "accelerate",
        "deepspeed",
        "srun",
        "mpirun",
        "mpiexec",
        "horovodrun",
        "composer",
        "docker",
        "podman",
        "nvidia-docker",
        "bash",
        "sh",
        "zsh",
        "python",
        "python3",
    ]
)
#: fish: `set -gx NAME value`, `set --export NAME value`. bash's `set -x` is followed by no name and value.
_FISH_EXPORT = re.compile(r"-[gUl]{0,2}x[gUl]{0,2}$|--export$")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash"})
_TORCH_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher"}
)
#: How many GPUs a job has hangs on it, and not to set it is a choice, too: all of them.
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_DEEPEST = 6


class Shell:
    """The state of one script. `scope` is that of the variables it exports; None where they do not last (RUN)."""

    def __init__(self, source: str, found: Found, scope: str | None = "script") -> None:
        self.source = source
        self.found = found
        self.scope = scope
        self.variables: dict[str, str | None] = {}
        self.exported: set[str] = set()
        self.all_exported = False
        self.share: slurm_options.Share | None = None
        self.told = 0
        self._branches: list[Branches] = []

    def run(self, part: Part) -> None:
        """All statements of a part."""
        for text, quote in statements(part):
            self.line(text, quote)

    def line(self, text: str, quote: Quote, depth: int = 0) -> None:
        """One logical line."""
        if depth > _DEEPEST:
            return
        for words in commands(text, self.variables):
            self.command(words, quote, depth)

    def define(self, name: str, value: str | None) -> None:
        """A variable that something else than the script sets (Slurm, ARG)."""
        self.variables[name] = value

    def command(self, words: Sequence[Word], quote: Quote, depth: int = 0) -> None:
        """One simple command."""
        at = 0
        while at < len(words) and words[at].text in _KEYWORDS:
            self._branch(words[at].text, quote)
            at += 1
        if at < len(words) and words[at].text in ("case", "esac"):
            self._branch(words[at].text, quote)
        if at < len(words) and words[at].text in ("for", "select", "read", "case") and at + 1 < len(words):
            self.variables[words[at + 1].text] = None
            return
        given: list[tuple[str, str, bool]] = []
        while at < len(words) and (match := _ASSIGNMENT.match(words[at].text)) is not None:
            given.append(self._assignment(words[at], match))
            at += 1
        if at >= len(words):
            for name, value, _ in given:
                self._set(name, value, quote)
            return
        self._program(words[at:], given, quote, depth)

    def _branch(self, word: str, quote: Quote) -> None:
        """A keyword that begins or ends what may not run."""
        if word in ("if", "case"):
            self._branches.append(Branches(dict(self.variables), esac=word == "case"))
        elif not self._branches:
            return
        elif word in ("elif", "else"):
            self.variables = self._branches[-1].next(self.variables, last=word == "else")
        elif word in ("fi", "esac"):
            whole = self._branches.pop()
            unsure = whole.may_differ(_VISIBLE, self.variables)
            self.variables = whole.joined(self.variables)
            if unsure and _VISIBLE in self.exported:
                self.variables[_VISIBLE] = None
                self._keep(_VISIBLE, None, quote)

    def _assignment(self, word: Word, match: re.Match[str]) -> tuple[str, str, bool]:
        name, appends = match[1], bool(match[2])
        value = word.partial[match.end() :]
        text = word.text[match.end() :]
        if UNKNOWN in value and name.endswith("PATH") and "`" not in text and "$(" not in text:
            # The directories that the script adds are known, whatever the machine had before.
            held = {**self.variables, name: self.variables.get(name) or ""}
            value = expanded(text, held)
        if appends:
            before = self.variables.get(name)
            value = (UNKNOWN if before is None else before) + value
            value = value if len(value) <= LONGEST_VALUE else UNKNOWN
        if text.startswith("("):
            value = UNKNOWN
        return name, value, appends

    def _set(self, name: str, value: str | None, quote: Quote) -> None:
        self.variables[name] = value
        if name in self.exported or self.all_exported:
            self._keep(name, value, quote)

    def _export(self, words: Sequence[Word], quote: Quote) -> None:
        for word in words:
            match = _ASSIGNMENT.match(word.text)
            if match is not None:
                name, value, _ = self._assignment(word, match)
                self.exported.add(name)
                self.variables[name] = value
                self._keep(name, value, quote)
            elif re.fullmatch(r"[A-Za-z_]\w*", word.text):
                self.exported.add(word.text)
                if word.text in self.variables:
                    self._keep(word.text, self.variables[word.text], quote)

    def _keep(self, name: str, value: str | None, quote: Quote, *, command: bool = False) -> None:
        self.told += 1
        if self.scope is not None:
            self.found.add_variable(Variable(name, known(value), self.scope, quote, command=command))

    def _program(
        self, words: Sequence[Word], given: list[tuple[str, str, bool]], quote: Quote, depth: int
    ) -> None:
        name = (words[0].value or words[0].text).rpartition("/")[2]
        rest = words[1:]
        if name in ("export", "declare", "typeset", "local", "readonly"):
            flags = [word.text for word in rest if word.text.startswith("-")]
            plain = [word for word in rest if not word.text.startswith("-")]
            if name == "export" or any("x" in flag for flag in flags):
                if not any("n" in flag for flag in flags):
                    self._export(plain, quote)
            else:
                for word in plain:
                    match = _ASSIGNMENT.match(word.text)
                    if match is not None:
                        held, value, _ = self._assignment(word, match)
                        self._set(held, value, quote)
            return
        if name == "unset":
            for word in rest:
                self._unset(word.text)
            return
        if name == "setenv" and len(rest) == 2:  # csh
            self._define(rest[0], rest[1], quote)
            return
        if name == "set" and len(rest) >= 3 and _FISH_EXPORT.match(rest[0].text):
            self._define(rest[1], rest[2], quote)
            return
        if name == "set":
            letters = "".join(word.text for word in rest if word.text[:1] == "-" and word.text[:2] != "--")
            self.all_exported = self.all_exported or "a" in letters or "allexport" in [w.text for w in rest]
            return
        for held, value, _ in given:
            # "a=b, c" of a program's text is no variable, and `read` alone looks at IFS.
            if held.upper() == held and held != "IFS":
                self._keep(held, value, quote, command=True)
        if name == "env":
            self._env(rest, quote, depth)
        elif name in _SHELLS:
            self._shell(rest, quote, depth)
        elif installs.is_install(name, rest):
            self.told += int(installs.read(self.found, name, rest, quote))
        elif not self._starts(name, rest, quote, depth) and name in _WRAPPERS:
            self._wrapped(name, rest, quote, depth)

    def _define(self, name: Word, value: Word, quote: Quote) -> None:
        """A variable that csh's setenv or fish's `set -gx` exports."""
        if re.fullmatch(r"[A-Za-z_]\w*", name.text):
            self.exported.add(name.text)
            self._set(name.text, value.partial, quote)

    def _unset(self, name: str) -> None:
        self.variables[name] = ""
        if name in self.exported and self.scope is not None:
            self.exported.discard(name)
            self.found.variables[:] = [
                one
                for one in self.found.variables
                if one.name != name or one.quote.source != self.source or one.scope != self.scope
            ]

    def _env(self, rest: Sequence[Word], quote: Quote, depth: int) -> None:
        at = 0
        while at < len(rest):
            match = _ASSIGNMENT.match(rest[at].text)
            if match is not None:
                name, value, _ = self._assignment(rest[at], match)
                self._keep(name, value, quote, command=True)
            elif rest[at].text in ("-u", "--unset", "-C", "--chdir"):
                at += 1
            elif not rest[at].text.startswith("-"):
                break
            at += 1
        if at < len(rest):
            self.command(rest[at:], quote, depth)

    def _shell(self, rest: Sequence[Word], quote: Quote, depth: int) -> None:
        for at, word in enumerate(rest):
            if re.fullmatch(r"-[a-z]{0,4}c[a-z]{0,3}", word.text) and at + 1 < len(rest):
                text = rest[at + 1].partial
                for line in text.replace("\\\n", " ").split("\n"):
                    self.line(line, quote, depth + 1)
                return

    def _wrapped(self, name: str, rest: Sequence[Word], quote: Quote, depth: int) -> None:
        """What a wrapper runs: the first word that is known to start something."""
        if depth > _DEEPEST:
            return
        for at, word in enumerate(rest):
            program = (word.value or "").rpartition("/")[2]
            if name in ("singularity", "apptainer") and word.text in ("--env", "-e") and at + 1 < len(rest):
                self._pairs([(rest[at + 1].value or "").split(",")], quote)
            if program in _LAUNCHERS or program in ("env", "pip", "pip3") or program in _WRAPPERS:
                if _ASSIGNMENT.match(word.text) is None:
                    self.command(rest[at:], quote, depth + 1)
                    return
            if word.text.endswith((".sif", ".sqsh")) or word.text.startswith("docker://"):
                images.tell(self.found, (word.value or "").removeprefix("docker://"), quote)

    def _pairs(self, groups: Iterable[Iterable[str | None]], quote: Quote) -> None:
        for group in groups:
            for pair in group:
                name, equals, value = (pair or "").partition("=")
                if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
                    self._keep(name, value, quote, command=True)

    def _starts(self, name: str, rest: Sequence[Word], quote: Quote, depth: int) -> bool:
        """Is the program a launcher? Then it is kept, with what it starts in turn."""
        following: Sequence[Word] = ()
        launch: Launch | None = None
        defaults = self.scope != "pod" and "PET_NPROC_PER_NODE" not in self.variables
        module = _module(rest) if name.startswith("python") else None
        if name in ("torchrun", "torchrun-hpc", "torch.distributed.run"):
            launch, _ = launchers.torchrun(rest, quote, program="torchrun", defaults=defaults)
        elif module is not None and module[0] in _TORCH_MODULES:
            launch, _ = launchers.torchrun(module[1], quote, program="torchrun", defaults=defaults)
        elif (name == "accelerate" and rest and rest[0].text == "launch") or (
            module is not None and module[0] == "accelerate.commands.launch"
        ):
            launch, _ = launchers.accelerate(rest[1:] if module is None else module[1], quote)
        elif name == "deepspeed" or (module is not None and module[0] == "deepspeed.launcher.runner"):
            launch, _ = launchers.deepspeed(rest if module is None else module[1], quote)
        elif name == "composer":
            launch, _ = launchers.composer(rest, quote)
        elif name in ("mpirun", "mpiexec", "horovodrun", "mpiexec.hydra"):
            launch, following, pairs = launchers.mpirun(rest, quote, name)
            self._pairs([pairs], quote)
        elif name in ("srun", "sbatch", "salloc"):
            return self._slurm(name, rest, quote, depth)
        elif name in ("docker", "podman", "nvidia-docker") and rest and rest[0].text in ("run", "create"):
            return self._docker(name, rest[1:], quote, depth)
        elif name == "ulimit" and len(rest) >= 2 and "l" in rest[0].text:
            limit = rest[1].value or ""
            bytes_ = (
                -1
                if limit == "unlimited"
                else int(limit) << 10
                if limit.isdigit() and len(limit) < 12
                else None
            )
            launch = Launch(quote=quote, program="ulimit", pinned_limit_bytes=bytes_)
        if launch is None:
            return False
        self._launch(launch)
        if following:
            self.command(following, quote, depth + 1)
        return True

    def _launch(self, launch: Launch) -> None:
        slurm = launch.program in ("sbatch", "srun", "salloc")
        if slurm and launch == Launch(launch.quote, launch.program):
            return  # "sbatch job.sh" tells nothing of the job
        self.told += 1
        self.found.add_launch(launch)

    def _slurm(self, name: str, rest: Sequence[Word], quote: Quote, depth: int) -> bool:
        given = slurm_options.read(rest)
        self.exports(given.all("export"), quote)
        share = slurm_options.share(given, self.share)
        if share.gpu_model:
            self.found.add("expected_gpus", share.gpu_model, quote)
        for image in given.all("container-image"):
            images.tell(self.found, image or "", quote)
        if name == "srun" and self.share is not None and not share.tasks_told:
            share = replace(share, tasks_per_node=1)  # Slurm's default: one task on each node
        self._launch(share.launch(name, quote))
        if given.rest and depth <= _DEEPEST and name != "sbatch":
            self.command(given.rest, quote, depth + 1)
        return True

    def exports(self, values: Iterable[str | None], quote: Quote) -> None:
        """The variables of --export=ALL,NAME=value."""
        for value in values:
            for pair in (value or "").split(","):
                name, equals, text = pair.partition("=")
                if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
                    self.told += 1
                    self.found.add_variable(Variable(name, text, "job", quote))

    def _docker(self, name: str, rest: Sequence[Word], quote: Quote, depth: int) -> bool:
        run = docker_run.read(rest, quote, f"{name} run")
        self._launch(run.launch)
        for pair in run.variables:
            held, equals, value = (pair or "").partition("=")
            if equals and re.fullmatch(r"[A-Za-z_]\w*", held):
                self._keep(held, value, quote, command=True)
        if run.image:
            images.tell(self.found, run.image, quote)
        if run.rest and depth <= _DEEPEST:
            self.command(run.rest, quote, depth + 1)
        return True


def _module(words: Sequence[Word]) -> tuple[str, Sequence[Word]] | None:
    """(module, its arguments) of "python -u -m module ..."."""
    for at, word in enumerate(words[:8]):
        if word.text == "-m" and at + 1 < len(words):
            return words[at + 1].value or "", words[at + 2 :]
        if not word.text.startswith("-"):
            return None
    return None
