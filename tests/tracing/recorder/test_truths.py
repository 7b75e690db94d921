"""Questions about numbers that only a GPU has are answered as a healthy run answers them."""

from __future__ import annotations

import pytest

from tests.tracing.programs import traced

_TRUE = [
    "torch.isfinite(loss)",
    "torch.isfinite(out).all()",
    "out.isfinite().all().item()",
    "(out == out).all()",
    "not torch.isnan(loss)",
    "not torch.isnan(out).any()",
    "not torch.isinf(out).any()",
    "not (loss != loss).any()",
    "torch.isnan(out).sum() == 0",
    "torch.isnan(out).sum().item() == 0",
    "not torch.count_nonzero(torch.isnan(out))",
    "not torch.logical_or(loss.isnan(), loss.isinf())",
    "not (out.abs().max() == float('inf'))",
    "torch.isfinite(out).sum() == out.numel()",
    "(torch.isfinite(out) & torch.isfinite(out)).all()",
    "torch.allclose(out, out + 0)",
    "(out >= 0).all()",
    "not (out < 0).any()",
    "out[torch.isnan(out)].numel() == 0",
    "len(torch.nonzero(torch.isinf(out))) == 0",
    "torch.isfinite(out).all(dim=1).shape == (1024,)",
]


@pytest.mark.parametrize("question", _TRUE)
def test_numbers_are_finite(question: str) -> None:
    # 1024 x 1024 elements are more than values are kept of.
    seen = traced(f"""
        out = torch.randn(1024, 1024, device="cuda") @ torch.randn(1024, 1024, device="cuda")
        loss = out.mean()
        print(bool({question}))
    """)
    assert seen.printed == "True\n"
    assert any("finite" in one for one in seen.assumptions) or "shape" in question or "numel" in question


def test_known_numbers_answer_for_themselves() -> None:
    seen = traced("""
        x = torch.tensor([1.0, float("nan")]).cuda()
        print(bool(torch.isnan(x).any()), bool(torch.isfinite(x).all()), bool((x == x).all()))
        y = torch.tensor([True, False]).cuda()
        print(bool(y.all()), bool(y.any()))
    """)
    assert seen.printed == "True False False\nFalse True\n"


def test_what_was_true_of_memory_is_not_of_what_is_written_there_later() -> None:
    seen = traced("""
        x = torch.randn(1024, 1024, device="cuda")
        bad = torch.isnan(x)
        bad |= x > 0
        print(len(torch.nonzero(bad)))
    """)
    # 1024 * 1024: how many are above zero nobody knows, so all are taken.
    assert seen.printed == "1048576\n"


def test_which_rows_have_one_is_not_guessed_to_be_none() -> None:
    seen = traced("""
        x = torch.randn(256, 64, device="cuda")
        print(len((x > 0).any(1).nonzero()))
    """)
    assert seen.printed == "256\n"


def test_distributions_validate_their_parameters() -> None:
    seen = traced("""
        from torch.distributions import Beta, Categorical, Normal
        p = torch.randn(32, 6, device="cuda", requires_grad=True)
        print(Normal(p, p.exp()).rsample().shape == p.shape)
        print(Categorical(torch.softmax(p, -1)).sample().shape == (32,))
        # torch has no kernel for shapes of its sampler: the CPU's tells them.
        print(Beta(p.exp(), p.exp()).rsample().shape == p.shape)
    """)
    assert seen.printed == "True\nTrue\nTrue\n"
