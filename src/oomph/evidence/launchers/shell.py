"""Shells, containers, CI runners, IDEs and wrapper scripts: "Killed", "exit code 137", "OOMKilled".

Codes stay as printed: a shell's or a container's 137 is not turned into -9 (`signals.signal_of` reads both).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.launchers.signals import exit_code, signal_code
from oomph.evidence.model import Document, Position, ProcessExit

_ENDED = (
    r"Killed|Terminated|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception"
)
_ALONE = re.compile(rf"\s*({_ENDED})(?: \(core dumped\))?\s*$")
_SCRIPT = re.compile(rf"\bline \d{{1,6}}: +(\d{{1,10}}) ({_ENDED})\b")
_JOB = re.compile(rf"\[\d{{1,4}}\][+-]? +(?:(\d{{1,10}}) +)?({_ENDED}|killed|terminated) +\S")
_ZSH = re.compile(r"zsh: (killed|terminated|segmentation fault|bus error|abort) +\S")
_BY_SIGNAL = re.compile(r"\bterminated by signal (?:(SIG[A-Z]{2,6})|(\d{1,2}))\b")
_PRINTED = re.compile(
    r"\b(?:[Ee]xit(?:ed)?[ _]?(?:[Cc]ode|[Ss]tatus)|EXIT[ _]?CODE|exit(?:ed|s)? with(?: exit)? (?:code|status)|"
    r"ended with(?: exit)? (?:code|status)|returned(?: exit)? (?:code|status)|exited \()"
    r"['\"]?[ \t]*[:=]?[ \t]*(-?\d{1,10})(?=\s*$|[ \t]*[.,;)}\]\"'(]|[ \t]+(?:after|in|at)\b)"
)
_PROSE = re.compile(
    r"\b(?:if|when|usually|means?|would|might|may|could|should|expected?|e\.g|see|returns?|non-?zero)\b|\bcase of\b",
    re.IGNORECASE,
)
#: Lines about other commands' exits, and those that another launcher's parser reads.
_OTHERS = re.compile(
    r"\b(?:git|pip3?|conda|nvidia-smi|rsync|curl|wget|ninja|nvcc|wandb|upload\w*|hook|ssh|scp|gcc|make|apt-get)\b|"
    r"srun: |slurmstepd|exits with return|\(exitcode|\bprocess \d{1,6} terminated|terminated with the following|"
    r"[Ww]orker exit|^=|\b\d+ passed\b|\bexitcode *: *-?\d{1,10} *\(pid|failed with exitcode"
)
_OOM_KILLED = re.compile(r"\bOOMKilled\b(?![\"']?\s*[:=]\s*(?:false|False))")
_ECHO = re.compile(r"echo +(?:%ERRORLEVEL%|\$\?|\$LASTEXITCODE)\s*$", re.IGNORECASE)
_KERNEL_DIED = re.compile(
    r"[Tt]he (?:Jupyter |IPython )?[Kk]ernel (?:appears to have died|crashed while executing|died)|"
    r"[Ss]ession crashed after using all available RAM"
)
_NEAR = 3


def parse(document: Document) -> list[ProcessExit]:
    """Exits that the surroundings of the job print; exit code 0 included."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    for index in indices:
        text = document.lines[index].text
        found = (
            _signal(document, index, text) or _printed(document, index, text) or _pod(document, index, text)
        )
        if found is None and _ECHO.search(text) and index + 1 < len(document.lines):
            code = exit_code(document.lines[index + 1].text)
            if code is not None:
                found = _exit(document, index + 1, code)
        if found is None and _KERNEL_DIED.search(text):
            found = _exit(document, index, None, launcher="jupyter")
        if found:
            yield found


def _signal(document: Document, index: int, text: str) -> ProcessExit | None:
    """Lines in which a shell names the signal."""
    match = _ALONE.match(text)
    if match:
        return _exit(document, index, signal_code(match[1]))
    for pattern in (_SCRIPT, _JOB):
        match = pattern.search(text)
        if match:
            return _exit(document, index, signal_code(match[2]), pid=match[1])
    match = _ZSH.search(text)
    if match:
        return _exit(document, index, signal_code("aborted" if match[1] == "abort" else match[1]))
    match = _BY_SIGNAL.search(text)
    if match and not _PROSE.search(text):
        return _exit(document, index, signal_code(match[1] or match[2]))
    return None


def _printed(document: Document, index: int, text: str) -> ProcessExit | None:
    """Lines that print a code."""
    match = _PRINTED.search(text)
    if match is None or _OTHERS.search(text) or text.lstrip().startswith(("+ echo", "echo ")):
        return None
    if _PROSE.search(text, 0, match.start()) or _PROSE.search(text, match.end()):
        return None
    code = exit_code(match[1])
    if code is None:
        return None
    killer = "kernel" if code and _oom_killed_near(document, index) else ""
    return _exit(document, index, code, killer=killer)


def _pod(document: Document, index: int, text: str) -> ProcessExit | None:
    """Kubernetes: the kernel killed the container; its exit code, where printed, stands within a few lines."""
    if not _OOM_KILLED.search(text) or _PROSE.search(text):
        return None
    low, high = max(0, index - _NEAR), index + 1 + _NEAR
    if any(_PRINTED.search(line.text) for line in document.lines[low:high]):
        return None
    return _exit(document, index, -9, killer="kernel", launcher="kubernetes")


def _oom_killed_near(document: Document, index: int) -> bool:
    lines = document.lines[max(0, index - _NEAR) : index + 1 + _NEAR]
    return any(_OOM_KILLED.search(line.text) for line in lines)


def _exit(
    document: Document,
    index: int,
    code: int | None,
    *,
    pid: str | None = None,
    killer: str = "",
    launcher: str = "shell",
) -> ProcessExit:
    return ProcessExit(
        code=code,
        position=Position(document.index, index),
        quote=document.quote(index),
        pid=int(pid) if pid else None,
        killer=killer,
        launcher=launcher,
        time=document.lines[index].time,
    )


PRINTER = Printer(
    (
        *(word.lower() for word in _ENDED.split("|")),
        "zsh: ",
        "by signal",
        "exit code",
        "exitcode",
        "exit_code",
        "exit status",
        "with code",
        "with status",
        "with exit",
        "returned code",
        "returned status",
        "exited (",
        "echo %errorlevel%",
        "echo $?",
        "echo $lastexitcode",
        "kernel appears to have died",
        "kernel crashed",
        "kernel died",
        "session crashed after",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
