"""A Python file as checks see it: its syntax tree, where each node stands, what each name means by the imports.

Nothing is run and nothing is imported. A name that a star import, a parameter or an attribute of `self` brings has no
meaning here: checks say nothing of what they cannot name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst
from libcst.metadata import (
    ByteSpanPositionProvider,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameProvider,
)

from oomph.evidence.model import Quote

N = TypeVar("N", bound=cst.CSTNode)

FunctionNode = cst.FunctionDef | cst.Lambda


@dataclass
class Script:
    """One Python file, or the code of a notebook.

    `source` is the file as it was named. `places`, of a notebook, gives for each 1-based line of `text` where it
    stands ("cell 3", 2); a script has none, and only a script without can be changed. `encoding` is how the file is
    written ("utf-8-sig" with a mark at its beginning).
    """

    source: str
    text: str
    places: tuple[tuple[str, int], ...] = ()
    encoding: str = "utf-8"
    _module: cst.Module | None = field(default=None, repr=False)

    @cached_property
    def wrapper(self) -> MetadataWrapper:
        """Raises libcst.ParserSyntaxError where the text is no Python."""
        module = self._module if self._module is not None else cst.parse_module(self.text.encode())
        return MetadataWrapper(module, unsafe_skip_copy=True)

    @property
    def module(self) -> cst.Module:
        """The syntax tree."""
        return self.wrapper.module

    @cached_property
    def _positions(self) -> Mapping[cst.CSTNode, Any]:
        return self.wrapper.resolve(PositionProvider)

    @cached_property
    def _spans(self) -> Mapping[cst.CSTNode, Any]:
        return self.wrapper.resolve(ByteSpanPositionProvider)

    @cached_property
    def _parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        return self.wrapper.resolve(ParentNodeProvider)

    @cached_property
    def _names(self) -> Mapping[cst.CSTNode, Any]:
        return self.wrapper.resolve(QualifiedNameProvider)

    @cached_property
    def _nodes(self) -> tuple[cst.CSTNode, ...]:
        """Every node, in the order of the file."""
        found: list[cst.CSTNode] = []
        waiting: list[cst.CSTNode] = [self.module]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += reversed(node.children)
        return tuple(found)

    @cached_property
    def _by_kind(self) -> dict[type[cst.CSTNode], list[cst.CSTNode]]:
        return {}

    def of(self, kind: type[N]) -> list[N]:
        """All nodes of a kind, in the order of the file."""
        known = self._by_kind.get(kind)
        if known is None:
            known = self._by_kind[kind] = [node for node in self._nodes if isinstance(node, kind)]
        return known  # type: ignore[return-value] # kept under their own type

    @cached_property
    def calls(self) -> list[cst.Call]:
        return sorted(self.of(cst.Call), key=self.begin)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def begin(self, node: cst.CSTNode) -> int:
        """The byte at which a node begins."""
        return int(self._spans[node].start)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """First byte of a node, and the first after it, in the UTF-8 text."""
        found = self._spans[node]
        return int(found.start), int(found.start) + int(found.length)

    def line(self, node: cst.CSTNode) -> int:
        """The 1-based line on which a node begins."""
        return int(self._positions[node].start.line)

    def quote(self, node: cst.CSTNode) -> Quote:
        """The line on which a node begins, as the user finds it."""
        line = self.line(node)
        text = self.lines[line - 1].strip() if line <= len(self.lines) else ""
        if self.places and line <= len(self.places):
            cell, within = self.places[line - 1]
            return Quote(f"{self.source} {cell}", within, text)
        return Quote(self.source, line, text)

    def code(self, node: cst.CSTNode) -> str:
        """A node as it is written."""
        start, end = self.span(node)
        return self.text.encode()[start:end].decode()

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """A node's parent, its parent, up to the module."""
        one = self._parents.get(node)
        while one is not None:
            yield one
            one = self._parents.get(one)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        """The function in which a node stands; the module outside of any."""
        for one in self.above(node):
            if isinstance(one, cst.FunctionDef):
                return one
        return self.module

    def loops(self, node: cst.CSTNode) -> list[cst.For | cst.While]:
        """Loops around a node within its function, the innermost first. What a `for` goes through is outside of it."""
        found: list[cst.For | cst.While] = []
        before: cst.CSTNode = node
        for one in self.above(node):
            if isinstance(one, (cst.FunctionDef, cst.Lambda)):
                break
            if isinstance(one, (cst.For, cst.While)) and before is one.body:
                found.append(one)
            before = one
        return found

    def inside(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether a node stands in another one."""
        return outer is self.module or any([one is outer for one in self.above(node)])

    def meanings(self, node: cst.CSTNode) -> frozenset[str]:
        """What a name or a dotted name means by the imports: {"torch.cuda.amp.autocast"}. Of a local name, the name
        with the functions around it; empty where nothing is known."""
        found = self._names.get(node)
        if found is None:
            return frozenset()
        if callable(found):
            found = found()
        return frozenset([one.name for one in found])

    def means(self, node: cst.CSTNode, *names: str) -> bool:
        """Whether a name means one of these ("torch.cuda.amp.autocast")."""
        return not self.meanings(node).isdisjoint(names)

    @cached_property
    def _by_name(self) -> Mapping[str, list[cst.Call]]:
        """Calls by each full name that their function may have."""
        found: dict[str, list[cst.Call]] = {}
        for call in self.calls:
            for name in self.meanings(call.func):
                found.setdefault(name, []).append(call)
        return found

    def called(self, *names: str) -> list[cst.Call]:
        """Calls of functions of these full names, in the order of the file."""
        found = {id(call): call for name in names for call in self._by_name.get(name, ())}
        return sorted(found.values(), key=self.begin)

    @cached_property
    def _by_method(self) -> Mapping[str, list[cst.Call]]:
        found: dict[str, list[cst.Call]] = {}
        for call in self.calls:
            if isinstance(call.func, cst.Attribute):
                found.setdefault(call.func.attr.value, []).append(call)
        return found

    def methods(self, *names: str) -> list[cst.Call]:
        """Calls of methods of these names, whosever they are, in the order of the file."""
        found = [call for name in dict.fromkeys(names) for call in self._by_method.get(name, ())]
        return sorted(found, key=self.begin)

    @cached_property
    def _by_function(self) -> Mapping[str, list[cst.Call]]:
        """Calls by the last word of what is called: f(), self.f(), module.f()."""
        found: dict[str, list[cst.Call]] = {name: list(calls) for name, calls in self._by_method.items()}
        for call in self.calls:
            if isinstance(call.func, cst.Name):
                found.setdefault(call.func.value, []).append(call)
        return found

    def calls_of(self, name: str) -> list[cst.Call]:
        """Calls of functions and methods of this name, whosever they are."""
        return self._by_function.get(name, [])

    @cached_property
    def imported(self) -> frozenset[str]:
        """Full names of what is imported: modules, and names out of them ("torch.distributed.fsdp.CPUOffload")."""
        found: set[str] = set()
        for node in self.of(cst.Import):
            found |= {dotted(alias.name) for alias in node.names}
        for one in self.of(cst.ImportFrom):
            module = dotted(one.module) if one.module is not None else ""
            found.add(module)
            if not isinstance(one.names, cst.ImportStar):
                found |= {f"{module}.{dotted(alias.name)}" for alias in one.names}
        return frozenset(found)

    def imports(self, package: str) -> bool:
        """Whether a package, or something out of it, is imported."""
        return any([name == package or name.startswith(f"{package}.") for name in self.imported])


@dataclass(frozen=True)
class Config:
    """A YAML or JSON configuration. `values` are its scalars by dotted key, each with its 1-based line."""

    source: str
    text: str
    values: tuple[tuple[str, object, int], ...]

    def quote(self, line: int) -> Quote:
        lines = self.text.splitlines()
        return Quote(self.source, line, lines[line - 1].strip() if 0 < line <= len(lines) else "")


def dotted(node: cst.CSTNode) -> str:
    """The text of a dotted name; "" of anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr.value}" if before else ""
    return ""


def argument(call: cst.Call, name: str, place: int | None = None) -> cst.BaseExpression | None:
    """The value of an argument given by name, or by its place among the positional ones."""
    for one in call.args:
        if one.keyword is not None and one.keyword.value == name:
            return one.value
    if place is None:
        return None
    positional = [one for one in call.args if one.keyword is None]
    if any([one.star for one in positional[: place + 1]]) or place >= len(positional):
        return None
    return positional[place].value


def spread(call: cst.Call) -> bool:
    """Whether some arguments come from *args or **kwargs, so that what is missing cannot be told."""
    return any([one.star for one in call.args])


def text_of(node: cst.CSTNode | None) -> str | None:
    """The value of a string literal; None of anything else."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None
