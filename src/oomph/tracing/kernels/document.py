"""The table of rules in docs/kernels.md."""

from __future__ import annotations

import inspect

from oomph.tracing.kernels.registry import all_rules
from oomph.tracing.kernels.rule import KernelRule

_MOST_NAMED = 6


def table() -> str:
    """A Markdown table, one row per rule, in the order in which they are asked: its name, its operators, what it says
    (the class's first sentences), and its evidence."""
    rows = ["| rule | operators | what is allocated beside the results | evidence |", "|---|---|---|---|"]
    rows += [
        f"| `{rule.name}` | {_operators(rule)} | {_meaning(rule)} | {_cell(rule.evidence)} |"
        for rule in all_rules().rules
    ]
    return "\n".join(rows) + "\n"


def _operators(rule: KernelRule) -> str:
    names = list(dict.fromkeys(name.split(".")[1] for name in rule.operators))
    text = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED])
    return text + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def _meaning(rule: KernelRule) -> str:
    bound = getattr(rule, "bound", None)
    if bound is not None:
        return "Nothing for certain; a bound."
    return _cell(inspect.getdoc(type(rule)) or "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
