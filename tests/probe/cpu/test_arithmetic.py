"""What the device counts is what arithmetic says: sizes are rounded to 512 bytes, one block per storage."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")

F = 4  # bytes of a float32
IN, HIDDEN, OUT, BATCH = 256, 512, 128, 64
PARAMETERS = (HIDDEN * IN + HIDDEN + OUT * HIDDEN + OUT) * F  # each of the four is a multiple of 512
SCALAR = 512


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(IN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, OUT))


def test_a_step_of_an_mlp(card):
    device = card()
    start = device.read().allocated_bytes

    def allocated() -> int:
        return device.read().allocated_bytes - start

    def peak() -> int:
        return device.read().peak_allocated_bytes - start

    model = mlp()
    assert allocated() == PARAMETERS
    x = torch.randn(BATCH, IN)
    inputs = BATCH * IN * F
    assert allocated() == PARAMETERS + inputs

    device.begin()
    loss = model(x).sum()
    # ReLU's output is saved by itself and by the next layer; what the first layer gave is gone, and the last's output
    # too: sum saves nothing.
    hidden = BATCH * HIDDEN * F
    assert allocated() == PARAMETERS + inputs + hidden + SCALAR
    # The largest moment is in ReLU, where its input and output are there, or at the end.
    last = BATCH * OUT * F
    assert peak() == PARAMETERS + inputs + max(2 * hidden, hidden + last + SCALAR)

    device.begin()
    loss.backward()
    del loss
    assert allocated() == 2 * PARAMETERS + inputs
    assert peak() > 2 * PARAMETERS + inputs

    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    device.begin()
    optimizer.step()
    steps = 4 * SCALAR  # one count of steps for each parameter
    assert allocated() == 4 * PARAMETERS + inputs + steps
    optimizer.zero_grad()
    assert allocated() == 3 * PARAMETERS + inputs + steps

    del model, optimizer, x
    gc.collect()
    assert allocated() == 0


def test_a_foreach_step_holds_one_copy_more(card):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, foreach=True)
    device = card()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    start = device.read().allocated_bytes
    device.begin()
    optimizer.step()
    assert device.read().allocated_bytes == start
    torch._foreach_add(list(model.parameters()), 1.0)
    assert device.read().peak_allocated_bytes == start + PARAMETERS


def test_tensors_from_before_count_from_the_start(card):
    gc.collect()
    before = card().read().allocated_bytes
    weights = torch.zeros(1 << 20)
    views = [weights[:10], weights.view(1024, 1024)]
    device = card()
    assert device.read().allocated_bytes == before + (4 << 20)
    del weights
    assert device.read().allocated_bytes == before + (4 << 20)
    views.clear()
    assert device.read().allocated_bytes == before


def test_what_no_operator_made_counts_when_it_is_used(card):
    numpy = pytest.importorskip("numpy")
    device = card()
    start = device.read().allocated_bytes
    tensor = torch.from_numpy(numpy.zeros(1000, numpy.float32))
    result = tensor * 2
    assert device.read().allocated_bytes == start + 2 * 4096
    del tensor, result
    assert device.read().allocated_bytes == start


def test_views_and_in_place_take_nothing(card):
    device = card()
    x = torch.zeros(1024, 1024)
    start = device.read()
    device.begin()
    x.add_(1).mul_(2).clamp_(min=0)
    y = x.t()[3:].unsqueeze(0)
    x[0].fill_(5.0)
    assert device.read().peak_allocated_bytes == start.allocated_bytes
    assert y.shape == (1, 1021, 1024)


def test_a_storage_that_is_resized(card):
    """How FSDP gives the parameters that it gathered away, and takes room for the next time."""
    device = card()
    flat = torch.zeros(1 << 18)
    start = device.read().allocated_bytes
    flat.untyped_storage().resize_(0)
    assert device.read().allocated_bytes == start - (1 << 20)
    flat.untyped_storage().resize_(1 << 20)
    assert device.read().allocated_bytes == start
    grown = torch.zeros(0)
    grown.resize_(1 << 18)
    assert device.read().allocated_bytes == start + (1 << 20)
    torch.ones(1 << 17, out=grown)
    assert device.read().allocated_bytes == start + (1 << 20)


def test_gradients_accumulate_in_place(card):
    """A weight that is used twice has one gradient: the second is added to the first, in place."""
    weight = torch.nn.Parameter(torch.randn(512, 512))
    x = torch.randn(8, 512)
    one = 512 * 512 * F
    device = card()
    out = ((x @ weight) @ weight).sum()
    start = device.read().allocated_bytes
    device.begin()
    out.backward()
    assert weight.grad is not None
    # Both gradients are there at once, and no third. The rest is vectors of the batch.
    assert start + 2 * one <= device.read().peak_allocated_bytes < start + 2 * one + 8 * 8 * 512 * F
    device.begin()
    (x @ weight).sum().backward()
    assert device.read().allocated_bytes - one < start
    assert weight.grad.untyped_storage().nbytes() == one


def test_derivatives_write_in_place(card):
    """The gradient of what was gathered is one tensor of zeros that is written into, and no copy of it."""
    x = torch.randn(256, 4096, requires_grad=True)
    index = torch.randint(0, 4096, (256, 1))
    whole = 256 * 4096 * F
    device = card()
    for take in (
        lambda: x.gather(1, index),
        lambda: x[:, index[:, 0]][:, :1],
        lambda: x.index_select(1, index[:4, 0]),
    ):
        loss = take().sum()
        start = device.read().allocated_bytes
        device.begin()
        loss.backward()
        assert start + whole <= device.read().peak_allocated_bytes < start + 2 * whole
        x.grad = loss = None


def test_an_emptied_cache(card):
    device = card()
    held = torch.zeros(1 << 24)
    before = device.read().reserved_bytes
    del held
    assert device.read().reserved_bytes == before
    device.empty_cache()
    assert device.read().reserved_bytes <= before - (64 << 20)


def test_the_numbers_are_those_of_a_run_without():
    """Counting changes no result: the in-place twins add what the others add."""
    from oomph.probe.cpu import CpuDevice

    def train() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.ModuleList([torch.nn.Embedding(50, 32), torch.nn.Linear(32, 50)])
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        for _ in range(3):
            tokens = torch.randint(0, 50, (4, 9))
            hidden = model[0](tokens)
            hidden = hidden + torch.nn.functional.silu(hidden) * hidden
            logits = model[1](hidden).log_softmax(-1)
            loss = -logits.gather(-1, tokens.unsqueeze(-1)).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    without = train()
    device = CpuDevice()
    try:
        assert train() == without
    finally:
        device.close()


def test_checkpointing_keeps_less_and_computes_again(card):
    from torch.utils.checkpoint import checkpoint

    layers = torch.nn.ModuleList(
        [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(4)]
    )
    x = torch.randn(4096, 64, requires_grad=True)
    one = 4096 * 64 * F
    device = card()
    start = device.read().allocated_bytes
    out = x
    for layer in layers:
        out = layer(out)
    kept = device.read().allocated_bytes - start
    assert kept == 2 * 4 * one  # of each layer, GELU's input and its output
    del out
    for reentrant in (False, True):
        out = x
        for layer in layers:
            out = checkpoint(layer, out, use_reentrant=reentrant)
        rng = 4 * (torch.get_rng_state().numel() + 511) // 512 * 512
        held = device.read().allocated_bytes - start
        assert 4 * one <= held <= 4 * one + rng + 4096
        device.begin()
        out.sum().backward()
        assert device.read().peak_allocated_bytes - start > held + one
        del out
        x.grad = None
        for layer in layers:
            layer.zero_grad()
