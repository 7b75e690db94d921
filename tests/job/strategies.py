"""Any job, for property tests."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from oomph.job.model import Dimension, Framework, Job, Model

TEXT = st.text(max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
SCALARS = st.one_of(NUMBERS, FLOATS, TEXT)
VALUES = st.one_of(st.none(), st.booleans(), SCALARS, st.lists(SCALARS, max_size=3).map(tuple))


@st.composite
def models(draw: Any) -> Model:
    """Any model: pairs sorted by key, as the contract says. A dotted key never also is a table's."""
    config = draw(st.dictionaries(TEXT.map(lambda one: one.replace(".", "")), VALUES, max_size=6))
    nested = draw(
        st.dictionaries(st.sampled_from(["rope.factor", "text_config.a.b", "x.\u00e4"]), VALUES, max_size=2)
    )
    config = {key: value for key, value in config.items() if key not in ("rope", "text_config", "x")} | nested
    pairs = tuple(Dimension(key=key, value=config[key]) for key in sorted(config))
    return Model(name=draw(TEXT), family=draw(TEXT), config=pairs)


def of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    if kind is Model:
        return models()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        fields = {name: of(hint) for name, hint in hints.items()}
        if kind is Framework:
            fields["versions"] = st.dictionaries(TEXT, TEXT, max_size=3).map(
                lambda one: tuple(sorted(one.items()))
            )
        return st.builds(kind, **fields)
    simple = {int: NUMBERS, float: FLOATS, str: TEXT, bool: st.booleans(), type(None): st.none()}
    if kind in simple:
        return simple[kind]
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is tuple:
        return st.lists(of(get_args(kind)[0]), max_size=3).map(tuple)
    return st.one_of(*(of(each) for each in get_args(kind)))


JOBS = of(Job)
