"""What the recorder has to know of an operator, found out once for each."""

from __future__ import annotations

from typing import Any

from oomph.tracing.kernels.rule import KernelRule

#: Operators whose results do not alias their arguments by the schema and yet can.
_MAY_ALIAS = frozenset({"aten::set_", "aten::resize_", "aten::resize_as_", "aten::_resize_output_"})


class Operator:
    """`name` is "aten.mm", `full` "aten.mm.default". `view`: results alias arguments and nothing is written.
    `mutates`: the first argument that is written, by position, -1 for none. `inplace`: it is also the result."""

    __slots__ = (
        "composite",
        "full",
        "inplace",
        "known",
        "label",
        "mutates",
        "mutates_names",
        "name",
        "places",
        "resizes",
        "rules",
        "view",
    )

    def __init__(self, function: Any, rules: dict[str, list[KernelRule]], label: int, known: bool) -> None:
        import torch

        schema = function._schema  # noqa: SLF001 - the only way to the schema
        packet = f"{function.namespace}.{schema.name.partition('::')[2]}"
        self.name = packet
        self.full = f"{packet}.{schema.overload_name or 'default'}"
        self.rules = [*rules.get(self.full, ()), *rules.get(packet, ())]
        self.label = label
        self.known = known or bool(self.rules)
        written = [
            place
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.mutates = written[0] if written else -1
        self.mutates_names = tuple(schema.arguments[place].name for place in written)
        self.places = {argument.name: place for place, argument in enumerate(schema.arguments)}
        aliases = [one.alias_info is not None for one in schema.returns]
        self.resizes = schema.name in _MAY_ALIAS
        self.view = bool(aliases) and all(aliases) and not written and not self.resizes
        self.inplace = bool(written) and bool(aliases) and all(aliases)
        has = torch._C._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001
        name = function.name()
        # A kernel for CUDA goes before the composite one.
        self.composite = bool(has(name, "CompositeImplicitAutograd") and not has(name, "CUDA"))
