"""`--param NAME=VALUES`: what is varied, and what it may be.

batch=8:1                      8, 7, 6, ... 1
seq=8192:512                   8192, 4096, ... 512: a range of more than 64 numbers is halved
seq=8192:512:256               every 256th number from 8192 down
batch=8,4,2,1                  these
opt=adamw|sgd                  these words, in this order; also where values have commas
env:PYTORCH_CUDA_ALLOC_CONF=|expandable_segments:True      an environment variable; an empty value: not set
config.yaml:train.batch_size=8:1                           a key of a YAML, JSON or TOML file
--per_device_train_batch_size=8:1                          an argument of the command
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from oomph.errors import UsageError
from oomph.trial.model import Value, Variable

#: A range of more numbers than this is halved where no step is given.
HALVED_FROM = 64
_MOST_VALUES = 4096
_RANGE = re.compile(r"(\d{1,15}):(\d{1,15})(?::(\d{1,15}))?\Z", re.ASCII)
_INT = re.compile(r"-?\d{1,18}\Z", re.ASCII)
_FLOAT = re.compile(r"-?(?:\d{1,18}\.\d{0,18}|\.\d{1,18}|\d{1,18})(?:[eE][-+]?\d{1,3})?\Z", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w{0,99}\Z", re.ASCII)
_FILE = re.compile(r"(.+\.(?:ya?ml|json|toml)):([^:]+)\Z", re.IGNORECASE | re.DOTALL)
#: Names of what memory does not fall with when it is made smaller: batches and lengths.
_GROWS = re.compile(
    r"batch|(?:^|[_.-])(?:b|bs|bsz|mbs|seq|len|ctx|n_?ctx|context|tokens|resolution|res|frames)(?:$|[_.-])|seq_?len|"
    r"sequence|max_?len|length|block_?size|context|max_?tokens|micro",
    re.IGNORECASE,
)
_ACCUMULATION = re.compile(r"accum|num_?batches|batches", re.IGNORECASE)


def parse_param(text: str) -> Variable:
    """One `--param`. Raises UsageError with what to write instead."""
    name, equals, values = _split(text)
    if not equals or not name:
        raise UsageError(
            f"--param {text[:80]!r} has no values: give NAME=VALUES, like batch=8:1 or opt=adamw|sgd."
        )
    kind, target = _kind(name)
    if name == "trial":
        raise UsageError("--param trial: {trial} is the trial's own folder; take another name.")
    found, why = _values(name, values)
    return Variable(
        name=_short(name, kind, target),
        kind=kind,
        target=target,
        values=found,
        ordered=bool(why),
        why_ordered=why,
    )


def parse_params(texts: Sequence[str]) -> tuple[Variable, ...]:
    """All of them, in the order in which they are tried. Raises UsageError for none, and for one named twice."""
    if not texts:
        raise UsageError("Name what may be changed: --param batch=8:1 (docs/bisect.md has all forms).")
    variables = tuple(parse_param(text) for text in texts)
    for place, one in enumerate(variables):
        for other in variables[:place]:
            if (other.kind, other.target) == (one.kind, one.target) or other.name == one.name:
                raise UsageError(
                    f"--param {one.name} is given twice: give each variable once, with all its values."
                )
    return variables


def _split(text: str) -> tuple[str, str, str]:
    """NAME, "=", VALUES. The name of a file may have an equals sign; an argument's ends at the first."""
    match = re.match(r"(.+\.(?:ya?ml|json|toml):[^=:]+)(=)(.*)\Z", text, re.IGNORECASE | re.DOTALL)
    if match is not None:
        return match[1], match[2], match[3]
    return text.partition("=")


def _kind(name: str) -> tuple[str, str]:
    if name.startswith("env:"):
        variable = name[4:]
        if not _NAME.match(variable):
            raise UsageError(f"--param {name[:80]}: {variable[:60]!r} is no name of an environment variable.")
        return "environment", variable
    if re.match(r"--?[^\W_]", name):
        return "argument", name
    if _FILE.match(name):
        return "file", name
    if _NAME.match(name):
        return "placeholder", name
    if re.match(r"[+~]{0,2}[\w@][\w.@/-]*\Z", name):
        return "argument", name  # Hydra: key.of.config=value
    raise UsageError(
        f"--param {name[:80]}: not a name ({{name}} in the command), an argument (--flag), env:VARIABLE or FILE:key."
    )


def _short(name: str, kind: str, target: str) -> str:
    if kind == "environment":
        return target
    if kind == "file":
        match = _FILE.match(name)
        return match[2] if match is not None else name
    return name.lstrip("-+") if kind == "argument" else name


def _values(name: str, text: str) -> tuple[tuple[Value, ...], str]:
    """The values, and why halving them is allowed ("": it is not)."""
    match = _RANGE.match(text)
    if match is not None:
        return _range(name, match), "a range was given"
    words = text.split("|") if "|" in text else [word.strip() for word in text.split(",")]
    if len(words) < 2 or (len(set(words)) < len(words)):
        what = "each value once" if len(words) >= 2 else "at least two values, the job's own first"
        raise UsageError(f"--param {name[:80]}={text[:80]}: give {what}, like 8:1, 8,4,2,1 or adamw|sgd.")
    if "" in words and not name.startswith("env:"):
        raise UsageError(f"--param {name[:80]}={text[:80]}: one of the values is empty.")
    values = tuple(_value(word) for word in words)
    numbers = [value for value in values if isinstance(value, (int, float))]
    falls = len(numbers) == len(values) and all(a > b for a, b in pairwise(numbers))
    if falls and _GROWS.search(_short(name, *_kind(name))) and not _ACCUMULATION.search(name):
        return values, "batches and lengths need more memory the larger they are"
    return values, ""


def _range(name: str, match: re.Match[str]) -> tuple[Value, ...]:
    first, last = int(match[1]), int(match[2])
    step = int(match[3]) if match[3] is not None else None
    if first <= last:
        raise UsageError(
            f"--param {name[:80]}={match[0]}: a range goes from the job's own value, with which it fails, down: "
            f"{max(first, last)}:{min(first, last)}."
        )
    if step == 0 or (step is not None and step > first - last):
        raise UsageError(f"--param {name[:80]}={match[0]}: the step has to be 1 to {first - last}.")
    values: list[Value] = []
    if step is None and first - last + 1 > HALVED_FROM:
        now = first
        while now > last:
            values.append(now)
            now //= 2
    else:
        if (first - last) // (step or 1) > _MOST_VALUES:
            raise UsageError(
                f"--param {name[:80]}={match[0]}: more than {_MOST_VALUES} values; give a larger step."
            )
        values += range(first, last, -(step or 1))
    return (*values, last)


def _value(word: str) -> Value:
    if _INT.match(word):
        number = int(word)
        return number if str(number) == word else word  # 08 stays as it was written
    return float(word) if _FLOAT.match(word) and str(float(word)) == word else word
