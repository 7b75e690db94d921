"""Codes of rules and checks as people type them: lists, beginnings, any case; and their completion in the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from oomph.errors import UsageError

if TYPE_CHECKING:
    import click

    from oomph.cli.settings import Settings
    from oomph.diagnose.rules import Rule


def load_rules() -> tuple[Rule, ...]:
    """All rules of `explain`, by code. Imported here and not above: `oomph --help` has no need of them."""
    from oomph.diagnose.rules import all_rules

    return tuple(sorted(all_rules(), key=lambda rule: rule.code))


class Documented(Protocol):
    """What has a code: a rule of `explain`, a check of `doctor`. The texts are those of its page."""

    @property
    def code(self) -> str: ...

    @property
    def cause(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def means(self) -> str: ...

    @property
    def decisive_evidence(self) -> str: ...

    @property
    def first_action(self) -> str: ...

    @property
    def verify(self) -> str: ...

    @property
    def wrong_advice(self) -> str: ...


def load_machine_checks() -> tuple[Documented, ...]:
    """The checks of machines, by code."""
    from oomph.diagnose.machine.checks import all_checks

    return tuple(sorted(all_checks(), key=lambda check: check.code))


def load_script_checks() -> tuple[Documented, ...]:
    """The checks of scripts, by code. They bring a parser of Python, which takes longer to import than all else."""
    from oomph.diagnose.script.checks import all_script_checks

    return tuple(sorted(all_script_checks(), key=lambda check: check.code))


def load_checks() -> tuple[Documented, ...]:
    """All checks of `doctor`, of machines and of scripts, by code."""
    return tuple(sorted((*load_machine_checks(), *load_script_checks()), key=lambda check: check.code))


def load_all() -> tuple[Documented, ...]:
    """Everything that has a code: checks, then rules, in the order of the codes."""
    return tuple(sorted((*load_checks(), *load_rules()), key=lambda one: one.code))


def split_codes(values: Iterable[str]) -> tuple[str, ...]:
    """`("oom2,OOM301", "OOM4")` -> `("OOM2", "OOM301", "OOM4")`: options may be repeated and hold lists."""
    parts = (part.strip().upper() for value in values for part in value.split(","))
    return tuple(part for part in parts if part)


def expand_codes(beginnings: Sequence[str], rules: Sequence[Documented], option: str) -> tuple[str, ...]:
    """The codes that start with one of `beginnings`, in order. Raises UsageError for one that matches nothing."""
    wanted: list[str] = []
    for beginning in beginnings:
        matching = [rule.code for rule in rules if rule.code.startswith(beginning)]
        if not matching:
            raise UsageError(
                f"{option}: no rule's code starts with {beginning!r}; `oomph rules` lists the codes"
            )
        wanted += matching
    return tuple(dict.fromkeys(wanted))


def chosen_rules(
    select: Sequence[str], ignore: Sequence[str], settings: Settings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Codes of rules to select and to ignore. The command line replaces what the settings say, option by option."""
    return _chosen(select, ignore, settings, load_rules, load_checks)


def chosen_checks(
    select: Sequence[str], ignore: Sequence[str], settings: Settings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same for the checks of `doctor`."""
    given = split_codes((*select, *ignore))
    own = load_machine_checks if given and all(code.startswith("ENV") for code in given) else load_checks
    if not given and not settings.select and not settings.ignore:
        return (), ()
    return _chosen(select, ignore, settings, own, load_rules)


def _chosen(
    select: Sequence[str],
    ignore: Sequence[str],
    settings: Settings,
    own: Callable[[], Sequence[Documented]],
    others: Callable[[], Sequence[Documented]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`own` are a command's own codes. A project's settings are for all commands: `others` in them say nothing here."""

    def expanded(given: Sequence[str], set_: Sequence[str], name: str) -> tuple[str, ...]:
        wanted = split_codes(given or set_)
        if not wanted:
            return ()
        if given:
            return expand_codes(wanted, own(), f"--{name}")
        strange = [word for word in wanted if not any(one.code.startswith(word) for one in own())]
        if strange:
            expand_codes(strange, others(), f"{settings.source}: {name}")
        return expand_codes([word for word in wanted if word not in strange], own(), settings.source)

    return expanded(select, settings.select, "select"), expanded(ignore, settings.ignore, "ignore")


def find_rules(words: Sequence[str]) -> tuple[Documented, ...]:
    """What each of `words` means, once: a code, a cause or a name, in any case. Raises UsageError for one that is
    nobody's, saying what is close."""
    found: dict[Documented, None] = {}
    for word in words:
        for load in (load_rules, load_machine_checks, load_script_checks):
            named = [
                one
                for one in load()
                if word.lower() in (one.code.lower(), one.cause.lower(), one.name.lower())
            ]
            if named:
                break
        else:
            raise UsageError(_unknown(word))
        found.update(dict.fromkeys(named))
    return tuple(found)


def _unknown(word: str) -> str:
    from difflib import get_close_matches

    every = load_all()
    names = [one.code for one in every] + sorted({name for one in every for name in (one.cause, one.name)})
    close = get_close_matches(word.upper(), names, n=3) or get_close_matches(word.lower(), names, n=3)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no rule {word!r}{meant or '; `oomph rules` lists them'}"


def complete_codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's
    """Shell completion of a rule's code or of the last code in a comma list."""
    return _completed(incomplete, load_rules())


def complete_checks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The same of a check's."""
    return _completed(incomplete, load_checks())


def complete_all(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - as above
    """The same of everything that has a code."""
    return _completed(incomplete, load_all())


def _completed(incomplete: str, known: Sequence[Documented]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{one.code}" for one in known if one.code.startswith(last.upper())]
