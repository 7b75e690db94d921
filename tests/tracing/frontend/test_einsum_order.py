"""The strides of einsum's results, as torch 2.4.1 and 2.8.0 gave them for the same calls."""

from __future__ import annotations

import json

import pytest

from oomph.tracing.frontend.einsum_order import in_old_order
from tests.tracing.programs import traced

#: Equation, shapes, and the strides that torch 2.4.1 and 2.8.0 print.
OLD = [
    ("ab,cdb->cda", [(5, 6), (2, 3, 6)], (3, 1, 6)),
    ("ab,...b->...a", [(5, 6), (2, 3, 6)], (3, 1, 6)),
    ("ab,cdb->acd", [(5, 6), (2, 3, 6)], (6, 3, 1)),
    ("cdb,ab->cda", [(2, 3, 6), (5, 6)], (15, 5, 1)),
    ("ab,bcd->cda", [(5, 6), (6, 2, 3)], (3, 1, 6)),
    ("xab,xcb->xca", [(4, 5, 6), (4, 7, 6)], (35, 1, 7)),
    ("xab,xcb->cxa", [(4, 5, 6), (4, 7, 6)], (1, 35, 7)),
    ("ab,cbd->cad", [(5, 6), (2, 6, 3)], (3, 6, 1)),
    ("a,bca->bca", [(6,), (2, 3, 6)], (18, 6, 1)),
    ("ab,cb", [(5, 6), (3, 6)], (3, 1)),
    ("cb,ab", [(5, 6), (3, 6)], (1, 3)),
    ("ab,cdb->cda", [(5, 6), (1, 3, 6)], (3, 1, 3)),
    ("ab,cdbe->cda", [(5, 6), (2, 3, 6, 7)], (3, 1, 6)),
]


def test_a_trace_for_an_old_torch_gives_its_strides():
    seen = traced(
        f"""
        import json
        cases = {[(equation, shapes) for equation, shapes, _ in OLD]!r}
        made = [torch.einsum(one, *(torch.zeros(s, device="cuda") for s in shapes)) for one, shapes in cases]
        print(json.dumps([one.stride() for one in made]))
        """,
        torch=(2, 8),
    )
    assert [tuple(one) for one in json.loads(seen.printed)] == [strides for _, _, strides in OLD]


def test_a_trace_for_a_new_torch_leaves_einsum_alone():
    seen = traced("print(torch._VF.einsum is torch._C._VariableFunctions.einsum)", torch=(2, 9))
    assert seen.printed == "True\n"


def test_numbers_stay_where_they_belong():
    seen = traced(
        """
        a, b = torch.rand(5, 6), torch.rand(2, 3, 6)
        there = torch.einsum("ab,cdb->cda", a, b)
        print(there.shape == (2, 3, 5) and torch.allclose(there, b @ a.T))
        """,
        torch=(2, 7),
    )
    assert seen.printed == "True\n"


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ab,cb->ac", [(5, 6), (3, 6)]),  # as it comes
        ("a,b->ba", [(5,), (6,)]),  # a product, without a sum
        ("aa,ba->b", [(5, 5), (3, 5)]),  # a diagonal
        ("ab,cb->cz", [(5, 6), (3, 6)]),  # torch refuses this
        ("ab,cb->ca", [(5, 6, 7), (3, 6)]),  # and this
        ("", [(), ()]),
        ("a...b...,c->a", [(5, 6), (3,)]),
        ("ab", [(5, 6), (3, 6)]),
    ],
)
def test_the_rest_is_left_to_torch(equation, shapes):
    assert in_old_order(equation, shapes) is None
