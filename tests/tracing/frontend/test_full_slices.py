"""Full slices of a view: recorded by torch up to 2.8, passed over later. Counted are gradients of the whole tensor."""

from __future__ import annotations

import pytest

from tests.tracing.programs import traced

WHOLE = 8 * 64 * 128 * 4


def gradients(index: str, version: tuple[int, int]) -> int:
    seen = traced(
        f"""
        x = torch.randn(8, 64, 128, device="cuda", requires_grad=True)
        y = x[{index}].sum()
        mark()
        y.backward()
        print(tuple(x[{index}].shape) == tuple(torch.empty(8, 64, 128)[{index}].shape))
        """,
        torch=version,
    )
    assert seen.printed == "True\n"
    return seen.events_after_mark.count(("alloc", WHOLE))


# Each slice or select in `grad_fn` whose gradient is of the whole size, as the versions named in full_slices.py
# make them. A slice inside one that was narrowed has a smaller gradient.
@pytest.mark.parametrize(
    ("index", "old", "new"),
    [
        (":, -1, :", 2, 1),  # slice, select, (slice of the narrowed); select
        (":, -1", 2, 1),
        ("..., -1", 1, 1),
        (":, 1:3", 2, 1),
        (":, :, 0", 3, 1),
        ("..., 1:, :", 1, 1),
    ],
)
def test_as_many_gradients_as_views_were_recorded(index, old, new):
    assert gradients(index, (2, 8)) == old
    assert gradients(index, (2, 9)) == new


def test_shapes_are_those_that_indexing_gives():
    seen = traced(
        """
        here, there = torch.empty(4, 6, 8), torch.empty(4, 6, 8, device="cuda")
        where = torch.tensor([1, 2])
        mask = torch.ones(4, 6, dtype=torch.bool)
        for index in (
            (slice(None), None, 0), (..., slice(None)), (slice(None), slice(None, 99)), (slice(None), slice(-2, None)),
            (None, slice(None), ..., None), (slice(None), slice(5, 1)), (slice(None), slice(0, 6, 2), -1),
            (slice(None), where, slice(None)), (slice(None), slice(None), where), (mask, slice(None)),
            (slice(None), None, where),
        ):
            assert here[index].shape == there[index].shape, index
        print("same")
        """,
        torch=(2, 6),
    )
    assert seen.printed == "same\n"
