"""Parameter tables: names and shapes of a family's parameters as expressions of its dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oomph.errors import OomphError
from oomph.memory.recipe.grammar import parse
from oomph.tracing.programs.dimensions import sets
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.families import Family, model
from oomph.tracing.programs.record import NAMES
from oomph.tracing.programs.symbols import Symbols, text

SCHEMA = 1
#: Fields that every config has, or that have nothing to do with parameters.
_GENERIC = {
    "tie_word_embeddings",
    "use_cache",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "is_encoder_decoder",
    "is_decoder",
    "add_cross_attention",
}

Shapes = dict[str, tuple[int, ...]]


def table(family: Family, versions: Mapping[str, str]) -> dict[str, Any]:
    """The file's contents, for each task: one table for the class's defaults, and one for each yes-or-no field of the
    config that changes the parameters, for as many relations of kv_heads to heads as it holds for."""
    tables: list[dict[str, Any]] = []
    for task in family.tasks:
        for heads in family.heads:
            _relation(tables, family, task, heads)
    return {
        "schema": SCHEMA,
        "framework": "transformers",
        "family": family.name,
        "versions": dict(versions),
        "layers": family.layers,
        "ties": dict(family.ties),
        "tables": tables,
    }


def _relation(tables: list[dict[str, Any]], family: Family, task: str, heads: str) -> None:
    runs = sets(heads, hidden=family.hidden, images=family.images, latent=family.latent)
    default = [_shapes(family, task, run, {}) for run in runs]
    _add(tables, family, task, heads, {}, runs, default)
    for field, value in _switches(family, task, runs[0]):
        try:
            shapes = [_shapes(family, task, run, {field: value}) for run in runs]
        except (OomphError, ValueError, TypeError, RuntimeError, AttributeError):
            continue  # a field that this class does not do, or not with these dimensions
        # One with parameters per head (StableLM's qk_layernorm) is left out: a table has no form for it.
        if shapes != default and all(set(each) == set(shapes[0]) for each in shapes):
            _add(tables, family, task, heads, {field: value}, runs, shapes)


def _shapes(family: Family, task: str, dimensions: Mapping[str, int], more: Mapping[str, Any]) -> Shapes:
    import torch

    with torch.device("meta"):
        net = model(family, dimensions, family.attention[0], more=more, task=task)
    return {name: tuple(parameter.shape) for name, parameter in net.named_parameters()}


def _switches(family: Family, task: str, dimensions: Mapping[str, int]) -> Iterator[tuple[str, bool]]:
    """Fields of the config that are true or false, each with what it is not."""
    import torch

    with torch.device("meta"):
        config = model(family, dimensions, family.attention[0], task=task).config
    for field, value in sorted(config.to_dict().items()):
        if isinstance(value, bool) and field not in _GENERIC and not field.startswith("_"):
            yield field, not value


def _add(
    tables: list[dict[str, Any]],
    family: Family,
    task: str,
    heads: str,
    when: Mapping[str, Any],
    runs: Sequence[Mapping[str, int]],
    shapes: Sequence[Shapes],
) -> None:
    for known in tables:
        if (known["task"], known["when"]) == (task, when) and all(
            _evaluated(known, family, run) == each for run, each in zip(runs, shapes, strict=True)
        ):
            known["heads"].append(heads)
            return
    if any(set(each) != set(shapes[0]) for each in shapes):
        raise ProgramError(f"{family.name}: which parameters there are depends on the dimensions")
    symbols = Symbols(runs, (*NAMES, *family.names))
    found: dict[str, Any] = {
        "task": task,
        "heads": [heads],
        "when": dict(when),
        "parameters": {},
        "layer": {},
    }
    for name in shapes[0]:
        values = zip(*(each[name] for each in shapes), strict=True)
        sizes = [text(symbols.size(column, name)) for column in values]
        number, inside = _inside(family, name)
        if number is None:
            found["parameters"][name] = sizes
        elif found["layer"].setdefault(inside, sizes) != sizes:
            raise ProgramError(f"{family.name}: layers have a {inside} of another shape each")
    only = _only(found["layer"], family, shapes[0]) if len(set(_kinds(family, runs[0]))) > 1 else {}
    if only:
        found["only"] = only
    lacking = [name for name in found["layer"] if f"{family.layers}.0.{name}" not in shapes[0]]
    if lacking and not only:
        found["first_lacks"] = lacking
    if any(_evaluated(found, family, run) != each for run, each in zip(runs, shapes, strict=True)):
        raise ProgramError(f"{family.name}: layers have other parameters each")
    tables.append(found)


def _kinds(family: Family, run: Mapping[str, int]) -> tuple[str, ...]:
    """The kind of each layer, where kinds have other parameters: a window changes none."""
    return family.kinds if family.kinds and not family.window else ("block",) * run["layers"]


def _only(layer: Mapping[str, Any], family: Family, shapes: Shapes) -> dict[str, list[str]]:
    """For each kind of layer, the parameters that no other kind has."""
    found: dict[str, list[str]] = {}
    for name in layer:
        having = {
            kind for number, kind in enumerate(family.kinds) if f"{family.layers}.{number}.{name}" in shapes
        }
        if len(having) < len(set(family.kinds)):
            found.setdefault(" ".join(sorted(having)), []).append(name)
    return found


def _inside(family: Family, name: str) -> tuple[str | None, str]:
    prefix = f"{family.layers}."
    if not name.startswith(prefix):
        return None, name
    number, _, rest = name.removeprefix(prefix).partition(".")
    return number, rest


def _evaluated(found: Mapping[str, Any], family: Family, run: Mapping[str, int]) -> Shapes:
    """All parameters of a model of these dimensions, as the table has them."""
    result = {name: _numbers(sizes, run) for name, sizes in found["parameters"].items()}
    others = {
        kind: {name for its, names in found.get("only", {}).items() if its != kind for name in names}
        for kind in _kinds(family, run)
    }
    for layer, kind in enumerate(_kinds(family, run)):
        for name, sizes in found["layer"].items():
            if name in others[kind] or (layer == 0 and name in found.get("first_lacks", ())):
                continue
            result[f"{family.layers}.{layer}.{name}"] = _numbers(sizes, run)
    return result


def _numbers(sizes: Sequence[str], run: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(parse(size).evaluate(run, {}) for size in sizes)
