"""The language of `--query`: comparisons of facts, joined by `and`, `or`, `not` and parentheses.

    phase.backward.peak > 30GiB and outcome = oom and versions.torch ~ 2.6
    not (gpu.name ~ a100) or environment.PYTORCH_CUDA_ALLOC_CONF
    phase.*.peak >= 60GiB and world_size = 8

A comparison is `NAME OPERATOR VALUE` with = != < <= > >= ~ (contains) !~; a name alone asks whether the fact is known.
`*` in a name stands for anything: then one such fact is enough. Values are words, numbers, sizes (30GiB) or text in
quotes. A fact that is not known is in no relation to anything, `!=` included. Queries become SQL with every name and
value as a parameter, so that nothing in them is ever run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from oomph.errors import UsageError
from oomph.units import parse_size

_LONGEST, _DEEPEST = 4000, 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<paren>[()])|(?P<op>!=|<=|>=|==|!~|=|<|>|~)|"(?P<double>[^"]*)"|'(?P<single>[^']*)'"""
    r"""|(?P<word>[^\s()<>=!~"']+))"""
)
_NUMBER = re.compile(r"[-+]?\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?\Z", re.IGNORECASE)
_SAME = "SELECT 1 FROM facts WHERE facts.run = runs.path AND facts.key = ?"
_LIKE = "SELECT 1 FROM facts WHERE facts.run = runs.path AND facts.key GLOB ?"
_MANY = re.compile(r"[-+]?\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?\s*[A-Za-z]+\Z")


@dataclass(frozen=True)
class Query:
    """A query as a condition on the table of runs, with its parameters; `names` are the facts that it asks for."""

    text: str
    sql: str
    parameters: tuple[object, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Query:
    """The query. Raises UsageError, which says where it stops making sense."""
    if len(text) > _LONGEST:
        raise UsageError(f"--query: longer than {_LONGEST} characters")
    parser = _Parser(text, _tokens(text))
    sql = parser.any_of(0)
    if parser.more():
        parser.fail("expected 'and', 'or' or the end")
    return Query(text, sql, tuple(parser.parameters), tuple(dict.fromkeys(parser.names)))


def _tokens(text: str) -> list[_Token]:
    result, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise UsageError(f"--query: not understood from character {at + 1} on: {text[at : at + 30]!r}")
        kind = str(match.lastgroup)
        result.append(
            _Token("text" if kind in ("double", "single") else kind, match[kind], match.start(kind))
        )
        at = match.end()
    return result


@dataclass
class _Parser:
    text: str
    tokens: list[_Token]
    at: int = 0
    parameters: list[object] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def more(self) -> bool:
        """Whether there is another word."""
        return self.at < len(self.tokens)

    def any_of(self, depth: int) -> str:
        """`a or b or c`"""
        parts = [self.all_of(depth)]
        while self._keyword("or"):
            parts.append(self.all_of(depth))
        return f"({' OR '.join(parts)})"

    def all_of(self, depth: int) -> str:
        """`a and b and c`"""
        parts = [self.one(depth)]
        while self._keyword("and"):
            parts.append(self.one(depth))
        return f"({' AND '.join(parts)})"

    def one(self, depth: int) -> str:
        """`not a`, `(a)`, or a comparison."""
        if depth > _DEEPEST:
            self.fail("too many parentheses")
        if self._keyword("not"):
            return f"(NOT {self.one(depth + 1)})"
        if self._take("paren", "("):
            inner = self.any_of(depth + 1)
            if not self._take("paren", ")"):
                self.fail("expected ')'")
            return inner
        return self._comparison()

    def _comparison(self) -> str:
        if not self.more() or self.tokens[self.at].kind != "word":
            self.fail("expected the name of a fact, such as outcome or phase.backward.peak")
        name = self.tokens[self.at].text
        self.at += 1
        self.names.append(name)
        where = _LIKE if "*" in name else _SAME
        # GLOB's other wildcards are taken as they are.
        self.parameters.append(name.replace("[", "[[]").replace("?", "[?]") if "*" in name else name)
        if not self.more() or self.tokens[self.at].kind != "op":
            return f"EXISTS ({where})"
        relation = self.tokens[self.at].text.replace("==", "=")
        self.at += 1
        value, number = self._value(relation)
        self.parameters += [relation, value, number]
        return f"EXISTS ({where} AND oomph_matches(facts.text, facts.number, ?, ?, ?))"

    def _value(self, relation: str) -> tuple[str, float | None]:
        if not self.more() or self.tokens[self.at].kind not in ("word", "text"):
            self.fail(f"expected a value after {relation}")
        token = self.tokens[self.at]
        self.at += 1
        text = token.text
        if (
            token.kind == "word"
            and _NUMBER.match(text)
            and self.more()
            and self.tokens[self.at].kind == "word"
        ):
            joined = parse_size(f"{text} {self.tokens[self.at].text}")  # "30 GiB"
            if joined is not None:
                self.at += 1
                return text, float(joined.bytes)
        if token.kind == "text":
            return text, None
        if _NUMBER.match(text):
            return text, float(text.replace("_", ""))
        size = parse_size(text) if _MANY.match(text) else None
        return text, None if size is None else float(size.bytes)

    def _keyword(self, word: str) -> bool:
        there = (
            self.more() and self.tokens[self.at].kind == "word" and self.tokens[self.at].text.lower() == word
        )
        self.at += there
        return there

    def _take(self, kind: str, text: str) -> bool:
        there = self.more() and (self.tokens[self.at].kind, self.tokens[self.at].text) == (kind, text)
        self.at += there
        return there

    def fail(self, what: str) -> NoReturn:
        """Raises UsageError."""
        where = self.tokens[self.at].at if self.more() else len(self.text)
        there = f", found {self.text[where : where + 30]!r}" if self.more() else ", found the end"
        raise UsageError(f"--query: {what} at character {where + 1}{there}")
