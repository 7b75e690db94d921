"""Environments made by hand, for tests of single checks."""

from __future__ import annotations

from typing import Any

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.evidence.environment.model import (
    Card,
    Environment,
    HostFacts,
    Interface,
    Launch,
    Told,
    TorchBuild,
    Variable,
)
from oomph.evidence.model import Quote

QUOTE = Quote("by hand", 1, "line")


def told(value: Any, text: str = "line") -> Told[Any]:
    return Told(value, Quote("by hand", 1, text))


def variables(scope: str = "process", **values: str | None) -> tuple[Variable, ...]:
    return tuple(
        Variable(name, value, scope, Quote("env", number, f"{name}={value}"))
        for number, (name, value) in enumerate(values.items(), 1)
    )


def cards(*names: str) -> tuple[Card, ...]:
    return tuple(
        Card(Quote("nvidia-smi -L", number + 1, name), index=number, name=name)
        for number, name in enumerate(names)
    )


def interfaces(*names: str, down: tuple[str, ...] = ()) -> tuple[Interface, ...]:
    return tuple(
        Interface(name, up=name not in down, kind="loopback" if name == "lo" else "ethernet")
        for name in names
    )


def launch(program: str, *, line: int = 1, source: str = "job.sh", **values: Any) -> Launch:
    return Launch(Quote(source, line, f"line {line}"), program=program, **values)


def torch(version: str, **values: Any) -> tuple[TorchBuild, ...]:
    return (TorchBuild(QUOTE, version=version, **values),)


def host(**values: int) -> HostFacts:
    return HostFacts(**{name: told(value) for name, value in values.items()})


def environment(*listed: str, **values: Any) -> Environment:
    """`listed` are fields that were told, be they empty."""
    return Environment(told=frozenset(listed), **values)


def problems(check: type[Check], made: Environment, **asked: Any) -> tuple[Problem, ...]:
    """The problems; fails where the check answers something else."""
    answer = check().check(Asked(made, **asked))
    assert isinstance(answer, tuple), answer
    assert answer
    for one in answer:
        assert one.says
        assert one.fix
        assert one.evidence
        assert one.subject
    return answer


def problem(check: type[Check], made: Environment, **asked: Any) -> Problem:
    """The only problem."""
    (one,) = problems(check, made, **asked)
    return one


def clear(check: type[Check], made: Environment, **asked: Any) -> str:
    answer = check().check(Asked(made, **asked))
    assert isinstance(answer, Clear), answer
    return answer.why


def untold(check: type[Check], made: Environment, **asked: Any) -> str:
    answer = check().check(Asked(made, **asked))
    assert isinstance(answer, CouldNotTell), answer
    return answer.why


def not_here(check: type[Check], made: Environment, **asked: Any) -> bool:
    return isinstance(check().check(Asked(made, **asked)), NotHere)


ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
