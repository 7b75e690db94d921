"""Rule codes as people type them: lists, beginnings, any case; and their completion in the shell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oomph.errors import UsageError

if TYPE_CHECKING:
    import click

    from oomph.cli.settings import Settings
    from oomph.diagnose.rules import Rule


def load_rules() -> tuple[Rule, ...]:
    """All rules, by code. Imported here and not above: `oomph --help` has no need of them."""
    from oomph.diagnose.rules import all_rules

    return tuple(sorted(all_rules(), key=lambda rule: rule.code))


def split_codes(values: Iterable[str]) -> tuple[str, ...]:
    """`("oom2,OOM301", "OOM4")` -> `("OOM2", "OOM301", "OOM4")`: options may be repeated and hold lists."""
    parts = (part.strip().upper() for value in values for part in value.split(","))
    return tuple(part for part in parts if part)


def expand_codes(beginnings: Sequence[str], rules: Sequence[Rule], option: str) -> tuple[str, ...]:
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
    """Codes to select and to ignore. The command line replaces what the settings say, option by option."""
    selected = split_codes(select or settings.select)
    ignored = split_codes(ignore or settings.ignore)
    if not selected and not ignored:
        return (), ()
    rules = load_rules()
    return (
        expand_codes(selected, rules, "--select" if select else f"{settings.source}: select"),
        expand_codes(ignored, rules, "--ignore" if ignore else f"{settings.source}: ignore"),
    )


def find_rules(word: str, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules that `word` means: a code, a cause or a name, in any case. Raises UsageError, saying what is close."""
    found = tuple(
        rule for rule in rules if word.lower() in (rule.code.lower(), rule.cause, rule.name.lower())
    )
    if found:
        return found
    from difflib import get_close_matches

    names = [rule.code for rule in rules] + sorted(
        {word for rule in rules for word in (rule.cause, rule.name)}
    )
    close = get_close_matches(word.upper(), names, n=3) or get_close_matches(word.lower(), names, n=3)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    raise UsageError(f"no rule {word!r}{meant or '; `oomph rules` lists them'}")


def complete_codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's
    """Shell completion of a code or of the last code in a comma list."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{rule.code}" for rule in load_rules() if rule.code.startswith(last.upper())]
