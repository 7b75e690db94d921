"""Dockerfiles: the base image of the last stage with what its stages set and install, ARGs with their defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from oomph.evidence.environment.formats import images
from oomph.evidence.environment.formats.shell import Shell
from oomph.evidence.environment.formats.shell_lines import statements
from oomph.evidence.environment.formats.shell_words import Word, commands, expand
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Variable
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

_INSTRUCTION = re.compile(
    r"\s{0,8}(FROM|RUN|ENV|ARG|COPY|ADD|WORKDIR|CMD|ENTRYPOINT|LABEL|EXPOSE|USER|SHELL|VOLUME|ONBUILD|HEALTHCHECK|STOPSIGNAL)"
    r"\s{1,20}(\S.*)$",
    re.DOTALL | re.IGNORECASE,
)
_FROM = re.compile(r"(?:--\S{1,80}\s{1,8})*(\S{1,300})(?:\s{1,8}[Aa][Ss]\s{1,8}(\S{1,80}))?\s*$")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*=")


@dataclass
class _Stage:
    """From one FROM to the next. `base` is as written with ARGs put in, None where an ARG has no default."""

    base: str | None
    name: str
    quote: Quote
    rows: list[tuple[str, str, Quote]] = field(default_factory=list)


def is_dockerfile(part: Part) -> bool:
    """Is it one? FROM alone is an English word: another instruction has to follow, or the name says it."""
    words = [
        match[1]
        for line in part.lines[:2_000]
        if len(line.text) < 8_000
        and (match := _INSTRUCTION.match(line.text)) is not None
        and match[1].isupper()
    ]
    named = "dockerfile" in part.name or "containerfile" in part.name or "docker" in part.language
    return "FROM" in words and (named or len(words) >= 2)


def parse(part: Part, found: Found) -> bool:
    """Whether it is a Dockerfile."""
    if not is_dockerfile(part):
        return False
    found.take(part.source, "Dockerfile")
    arguments: dict[str, str | None] = {}
    stages: list[_Stage] = []
    for text, quote in statements(part):
        match = _INSTRUCTION.match(text)
        if match is None:
            continue
        word, rest = match[1].upper(), match[2].strip()
        if word == "FROM":
            source = _FROM.match(rest)
            if source is not None:
                base = expand(source[1], arguments)
                stages.append(_Stage(base, (source[2] or "").lower(), quote))
        elif not stages:
            if word == "ARG":
                _argument(rest, arguments)
        else:
            stages[-1].rows.append((word, rest, quote))
    _read(part, found, stages, arguments)
    return True


def _argument(rest: str, held: dict[str, str | None], given: dict[str, str | None] | None = None) -> None:
    """ARG NAME[=default]; inside a stage a bare name means the default from above FROM."""
    for words in commands(rest, held)[:1]:
        for word in words:
            name, equals, _ = word.text.partition("=")
            if equals:
                held[name] = None if word.value is None else word.value.partition("=")[2]
            else:
                held[name] = (given or {}).get(name)


def _read(part: Part, found: Found, stages: Sequence[_Stage], arguments: dict[str, str | None]) -> None:
    """The last stage, with the stages that it is made from."""
    if not stages:
        return
    chain: list[_Stage] = []
    wanted = ""
    for stage in reversed(stages):  # a stage can only be made from one above it
        if not chain or (stage.name and stage.name == wanted):
            chain.insert(0, stage)
            wanted = (stage.base or "").lower()
    if chain[0].base is not None:
        images.tell(found, chain[0].base, chain[0].quote)
    else:
        found.note(f"{part.source}: the base image is an argument without a default")
    shell = Shell(part.source, found, scope=None)
    for stage in chain:
        for word, rest, quote in stage.rows:
            if word == "ARG":
                _argument(rest, shell.variables, arguments)
            elif word == "ENV":
                _environment(found, shell, rest, quote)
            elif word == "RUN" or word in ("CMD", "ENTRYPOINT"):
                _run(shell, rest, quote)


def _environment(found: Found, shell: Shell, rest: str, quote: Quote) -> None:
    pairs: list[tuple[str, str | None]] = []
    if _ASSIGNED.match(rest) is not None:
        for words in commands(rest, shell.variables):
            for word in words:
                name, equals, text = word.text.partition("=")
                if equals:
                    value = None if word.value is None else word.value.partition("=")[2]
                    pairs.append((name, _path(shell, name, text) if value is None else value))
    else:
        name, _, text = rest.partition(" ")
        value = expand(text.strip(), shell.variables)
        pairs.append((name, _path(shell, name, text.strip()) if value is None else value))
    for name, value in pairs:
        shell.define(name, value)
        if re.fullmatch(r"[A-Za-z_]\w*", name):
            found.add_variable(Variable(name, value, "image", quote))


def _path(shell: Shell, name: str, text: str) -> str | None:
    """Directories in front of what the base image has are known although the rest is not."""
    if not name.endswith("PATH"):
        return None
    return expand(text, {**shell.variables, name: shell.variables.get(name) or ""})


def _run(shell: Shell, rest: str, quote: Quote) -> None:
    while rest.startswith("--"):  # --mount=..., --network=...
        rest = rest.partition(" ")[2].lstrip()
    if rest.startswith("["):
        try:
            words = json.loads(rest)
        except (ValueError, RecursionError):
            return
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            shell.command([Word(word, word) for word in words], quote)
        return
    shell.line(rest, quote)
