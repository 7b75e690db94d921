"""YAML as nodes with their lines, one document at a time; nothing is constructed, aliases stay shared.

A document that is cut or damaged is read up to the damage. What a template engine would fill in is no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line, Quote

#: Longer documents are no manifests that a person wrote. PyYAML reads about 100 KB in a second.
_MOST_CHARS = 300_000
_DEEPEST = 60
#: Nodes that one document's walk may visit: aliases may say the same node a billion times.
_MOST_NODES = 20_000
_TEMPLATE = re.compile(r"\{\{[^{}\n]{0,400}\}\}|<%[^%\n]{0,400}%>")
#: What stands for a value that a template would fill in.
UNKNOWN = "__unknown__"


@dataclass(frozen=True)
class Node:
    """A scalar, list or mapping with the line on which it begins. `key_line` is the line of its key. `partial`: of its
    document something may be missing, which was cut or which a template puts in."""

    raw: Any
    part: Part
    key_line: int
    depth: int = 0
    partial: bool = False

    def get(self, *names: str) -> Node | None:
        """The value under the first of these keys that is there; of a mapping, else None."""
        if self.kind != "mapping":
            return None
        for name in names:
            for key, value in self.raw.value[:2_000]:
                if getattr(key, "value", None) == name:
                    return Node(value, self.part, key.start_mark.line, self.depth + 1, self.partial)
        return None

    def at(self, *path: str) -> Node | None:
        """The value at a path of keys."""
        node: Node | None = self
        for name in path:
            node = node.get(name) if node is not None else None
        return node

    @property
    def kind(self) -> str:
        return str(getattr(self.raw, "id", ""))

    @property
    def text(self) -> str | None:
        """A scalar's text; None for null, templates and what is no scalar."""
        if self.kind != "scalar":
            return None
        if self.raw.style is None and self.raw.value in ("", "~", "null", "Null", "NULL"):
            return None
        return None if UNKNOWN in self.raw.value else str(self.raw.value)

    @property
    def number(self) -> int | None:
        """A whole number, quoted or not."""
        text = (self.text or "").strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None

    def items(self) -> list[tuple[str, Node]]:
        """A mapping's entries."""
        if self.kind != "mapping" or self.depth > _DEEPEST:
            return []
        return [
            (
                str(getattr(key, "value", "")),
                Node(value, self.part, key.start_mark.line, self.depth + 1, self.partial),
            )
            for key, value in self.raw.value[:2_000]
        ]

    def each(self) -> list[Node]:
        """A list's elements; a scalar or a mapping as a list of itself."""
        if self.kind != "sequence":
            return [self]
        if self.depth > _DEEPEST:
            return []
        return [
            Node(value, self.part, value.start_mark.line, self.depth + 1, self.partial)
            for value in self.raw.value[:2_000]
        ]

    @property
    def quote(self) -> Quote:
        """The line of the key, or of the element."""
        lines = self.part.lines
        line = lines[min(self.key_line, len(lines) - 1)]
        return self.part.quote(line)

    @property
    def value_line(self) -> int:
        return int(self.raw.start_mark.line)

    def walk(self) -> Iterator[tuple[str, Node]]:
        """(key, value) of every mapping below, each node once."""
        seen: set[int] = set()
        stack = [self]
        while stack and len(seen) < _MOST_NODES:
            node = stack.pop()
            if id(node.raw) in seen or node.depth > _DEEPEST:
                continue
            seen.add(id(node.raw))
            if node.kind == "mapping":
                for key, value in node.items():
                    yield key, value
                    stack.append(value)
            elif node.kind == "sequence":
                stack += node.each()


def documents(part: Part) -> list[Node]:
    """The YAML documents of a part, as far as they can be read."""
    if sum(len(line.text) + 1 for line in part.lines) > 8 * _MOST_CHARS:
        return []
    out: list[Node] = []
    rows: list[Line] = []
    for line in [*part.lines, Line("---", 0)]:
        if line.text.rstrip() in ("---", "...") or line.text.startswith("--- "):
            if rows and len(out) < 200:
                out += _compose(part, rows)
            rows = []
        else:
            rows.append(line)
    return out


def _compose(part: Part, rows: Sequence[Line]) -> list[Node]:
    import yaml

    texts = [_plain(line.text) for line in rows]
    if sum(map(len, texts)) > _MOST_CHARS or _too_deep(texts):
        return []
    own = Part(part.source, list(rows), part.command, part.language)
    partial = any(row.text.strip() and not text for row, text in zip(rows, texts, strict=True))
    for _ in range(4):
        try:
            node = yaml.compose("\n".join(texts), Loader=yaml.SafeLoader)
        except RecursionError:
            return []
        except yaml.MarkedYAMLError as error:
            mark = error.context_mark if error.problem_mark is None else error.problem_mark
            line = mark.line if mark is not None else 0
            # What is cut or damaged ends the document there.
            if line >= len(texts):
                line = len(texts) - 1
            if line <= 0:
                return []
            del texts[line:]
            partial = True
        except (yaml.YAMLError, ValueError):
            return []
        else:
            return [Node(node, own, 0, partial=partial)] if node is not None else []
    return []


def _plain(text: str) -> str:
    """A line without what a template engine would put in: control lines go, values become unknown."""
    if "{{" not in text and "<%" not in text:
        return text.replace("\t", "  ")
    if _TEMPLATE.sub("", text).strip(" -") == "":
        return ""
    return _TEMPLATE.sub(UNKNOWN, text).replace("\t", "  ")


def _too_deep(texts: Sequence[str]) -> bool:
    depth = 0
    for text in texts:
        if len(text) > 20_000 or len(text) - len(text.lstrip(" ")) > 4 * _DEEPEST:
            return True
        if text.count("- ") > 40 and text.lstrip().startswith("- - -"):
            return True
        for sign in text:
            if sign in "[{":
                depth += 1
            elif sign in "]}":
                depth -= 1
            if depth > _DEEPEST:
                return True
    return False
