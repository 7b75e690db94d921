"""Backward takes what it takes on real tensors. Expected sizes are those that torch itself allocates for the same
lines on the CPU (torch.profiler, profile_memory=True, torch 2.13), where its kernels are the CPU's and the GPU's alike.
"""

from __future__ import annotations

import pytest

from tests.tracing.programs import traced

_BEFORE = """
x = torch.ones(1024, 1024, device=DEVICE, requires_grad=True)
w = torch.ones(1024, 1024, device=DEVICE, requires_grad=True)
a = torch.ones(1024, 1024, device=DEVICE)
"""
_PROGRAMS = {
    "two uses": "(x * a + x * a + x * a).sum().backward()",
    "expanded gradients": "y = x.sum() + x.mean() + (x * a).sum(); y.backward()",
    "into an old gradient": "(x * a).sum().backward(); (x * a).sum().backward()",
    "residual": "h = x * a\nfor i in range(3): h = h * a + torch.sin(h) * h\nh.mean().backward()",
    "a hook that holds": "k = []; h = x * a; h.register_hook(k.append); (h * a + h * a).sum().backward()",
    "retained": "h = x * a; h.retain_grad(); (h * a + torch.sin(h)).sum().backward()",
    "create_graph": "torch.autograd.backward((x * x * x).sum(), create_graph=True); x.grad = None",
    "gradient penalty": (
        "g, = torch.autograd.grad((x * x * x).sum(), x, create_graph=True); g.pow(2).sum().backward()"
    ),
    "chunks": "p, q, r, s = x.split(256, 1); (p * q + r * s).sum().backward()",
    "in place on a view": "y = x * 1; y[:, :512].mul_(2); y[0] = 0; (y * a).sum().backward()",
    "index": "(x[torch.arange(1024, device=DEVICE)] * a).sum().backward()",
    "take": "(x.take(torch.arange(1 << 20, device=DEVICE)) * 2).sum().backward()",
    "maximum of rows": "x.max(1)[0].sum().backward()",
    "checkpoint": (
        "from torch.utils.checkpoint import checkpoint\n"
        "y = checkpoint(lambda t: torch.sin(t * w), x, use_reentrant=False); (y * a).sum().backward()"
    ),
}


def _real(program: str) -> list[int]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    names = {"torch": torch}
    exec(_BEFORE.replace("DEVICE", "'cpu'"), names)  # noqa: S102 - the test's own lines
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        exec(program.replace("DEVICE", "'cpu'"), names)  # noqa: S102
    events = [one for one in recorded.profiler.kineto_results.events() if one.name() == "[memory]"]
    events.sort(key=lambda one: one.start_ns())
    return [one.nbytes() for one in events]


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
@pytest.mark.parametrize("name", _PROGRAMS)
def test_large_blocks_come_and_go_as_on_real_tensors(name: str) -> None:
    pytest.importorskip("torch", reason="tracing needs PyTorch")
    program = _PROGRAMS[name]
    seen = traced(
        f"{_BEFORE.replace('DEVICE', repr('cuda'))}\nmark()\n{program.replace('DEVICE', repr('cuda'))}"
    )
    traced_sizes = [size if kind == "alloc" else -size for kind, size in seen.events_after_mark]
    large = 1 << 20
    assert [one for one in traced_sizes if abs(one) >= large] == [
        one for one in _real(program) if abs(one) >= large
    ]


def test_selecting_by_a_mask_finds_the_places_first() -> None:
    seen = traced("""
        x = torch.ones(1024, 1024, device="cuda")
        mask = x > 0
        mark()
        y = x.masked_select(mask)
    """)
    sizes = [size for kind, size in seen.events_after_mark if kind == "alloc"]
    # All are taken: two int64 per element say where they are, then four bytes each.
    assert 16 << 20 in sizes
    assert sizes[-1] == 4 << 20


def test_backward_of_binary_cross_entropy_writes_into_its_own_temporary() -> None:
    seen = traced("""
        x = torch.ones(1024, 1024, device="cuda", requires_grad=True)
        a = torch.ones(1024, 1024, device="cuda")
        loss = torch.nn.functional.binary_cross_entropy_with_logits(x, a)
        mark()
        loss.backward()
    """)
    large = [size if kind == "alloc" else -size for kind, size in seen.events_after_mark if size >= 1 << 20]
    # FunctionsManual.cpp, binary_cross_entropy_with_logits_backward: input.sigmoid().sub_(target).mul_(grad), 4 MiB.
    assert large == [4 << 20]


def test_scattering_by_a_mask_counts_the_whole_tensor() -> None:
    seen = traced("""
        x = torch.ones(1024, 1024, device="cuda")
        mask = torch.zeros(1024, 1, dtype=torch.bool, device="cuda")
        mark()
        y = x.masked_scatter(mask, x)
    """)
    sizes = [size for kind, size in seen.events_after_mark if kind == "alloc"]
    # The result, and maskPrefixSum of cuda/IndexKernel.cpp: int64 for each of its elements.
    assert sizes[0] == 4 << 20
    assert 8 << 20 in sizes
