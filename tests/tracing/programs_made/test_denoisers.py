"""Programs of denoisers: how a run is cut into parts, and whether the shipped sizes hold at dimensions that they were
not found from."""

from __future__ import annotations

import warnings

import pytest

from oomph.predict.engine.expression import evaluate
from oomph.predict.programs.parts import load_parts
from oomph.tracing.programs.cut import Link
from oomph.tracing.programs.denoisers.families import FAMILIES
from oomph.tracing.programs.denoisers.parts import parts
from oomph.tracing.programs.denoisers.record import forward
from oomph.tracing.programs.denoisers.sizes import Sizes
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.forward import Studio
from oomph.tracing.programs.watch import Drop, Mark, Op, Ref, Run, Storage, Tensor


def _run() -> Run:
    """An input, a list of two modules that each take the last result and what the first stretch made, and a sum."""
    run = Run({})
    run.storages = [Storage("input", 8, "x"), *(Storage("own", 8) for _ in range(5))]
    run.tensors = [Tensor(number, (2,), (1,), "fp32") for number in range(6)]
    run.items = [
        Op("aten.neg.default", [Ref(0)], {}, [1]),
        Op("aten.neg.default", [Ref(0)], {}, [2]),
        Mark("begin layers.0"),
        Op("aten.add.Tensor", [Ref(1), Ref(2)], {}, [3]),
        Mark("end layers.0"),
        Drop(2),
        Mark("begin layers.1"),
        Op("aten.add.Tensor", [Ref(1), Ref(3)], {}, [4]),
        Mark("end layers.1"),
        Drop(3),
        Op("aten.sum.default", [Ref(4)], {}, [5]),
        Drop(1),
    ]
    run.kept = {"loss": 5}
    return run


def test_a_part_links_to_the_last_of_its_stack():
    found, kept = parts(_run(), ("layers",))
    assert [(each.name, each.module, each.first) for each in found] == [
        ("before", "", True),
        ("layers", "layers.0", True),
        ("layers", "layers.1", False),
        ("glue 1", "", True),
    ]
    first, second = found[1].section, found[2].section
    assert list(first.tensor_links.values()) == [Link("before", 1), Link("before", 2)]
    assert list(second.tensor_links.values()) == [Link("before", 1), Link("layers", 2)]
    # What a module took dies when it has returned: it is part of the module.
    assert second.items[-1] == Drop(second.tensors[1].storage)
    assert kept == {"loss": Link("glue 1", 1)}


def test_what_an_earlier_module_of_a_stack_made_is_refused():
    run = _run()
    run.items[-2] = Op("aten.sum.default", [Ref(3)], {}, [5])
    with pytest.raises(ProgramError, match="after the next one ran"):
        parts(run, ("layers",))


def test_modules_within_modules_are_refused():
    run = _run()
    run.items.insert(3, Mark("begin layers.0.inner"))
    with pytest.raises(ProgramError, match="within"):
        parts(run, ())


def test_sizes_are_whole_multiples_of_products():
    runs = [{"b": b, "side": side} for b, side in ((7, 3), (5, 2), (3, 5), (11, 4))]
    sizes = Sizes(runs, ("b", "side"))
    found = sizes.size([163_840 * each["b"] * each["side"] ** 2 for each in runs], "bytes")
    [(coefficient, _)] = found.terms
    assert coefficient == 163_840
    both = sizes.size([64 * each["side"] ** 2 + 77 for each in runs], "tokens")
    assert len(both.terms) == 2
    with pytest.raises(ProgramError, match="no expression"):
        sizes.size([1, 2, 4, 9], "bytes")


@pytest.mark.parametrize(
    ("name", "precision"), [("flux", "bf16-autocast"), ("vae", "fp32"), ("unet-sd15", "bf16")]
)
def test_shipped_sizes_hold_at_other_dimensions(name, precision):
    pytest.importorskip("diffusers")
    family = FAMILIES[name]
    kind = family.kinds[0]
    dimensions = family.sets(kind, False)[5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Studio() as studio:
            found, _ = parts(forward(studio, family.denoiser(kind, precision), dimensions))
    file = load_parts(f"diffusers-{name}")
    variant = next(
        each
        for each in file.variants
        if each.precision == precision and not each.one and all(each.more[key] == kind[key] for key in kind)
    )
    for part in found:
        stack, _, number = part.module.rpartition(".")
        stacked = bool(stack) and any(each.stack == stack for each in variant.order)
        shipped = variant.part(stack if stacked else part.name, first=number == "0")
        sizes = [evaluate(str(row[1]), dimensions) for row in shipped.program.storages]
        assert sizes == [each.size_bytes for each in part.section.storages], part.name
        operators = [item[1] for item in shipped.section.items if item[0] == "op"]
        assert operators == [item.name for item in part.section.items if isinstance(item, Op)], part.name
