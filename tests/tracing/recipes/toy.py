"""Streams of a toy whose truth is known: a model of layers with two blocks each, trained for some steps."""

from __future__ import annotations

from oomph.tracing.recipes.stream import Hold, Seen, Stream


def _tensor(stream: Stream, operator: str, shape: tuple[int, ...], itemsize: int, category: str) -> int:
    size = itemsize
    for number in shape:
        size *= number
    return stream.alloc(Seen(size, operator, shape, itemsize, True, category=category, label=operator))


def run(b: int, s: int, hidden: int, layers: int, steps: int, sms: int = 108) -> Stream:
    """Weights hidden x 3 hidden in fp32, a norm of hidden. Forward keeps b x s x hidden in bf16 per layer, has a mask
    (1, s rounded up to 32) for a while in each, a workspace at the first product, and labels (b, s - 1) at its end.
    Backward takes `above(b*s, 1000, 8*b*s)` bytes for a while per layer; momenta are made in the first step."""
    stream = Stream({"b": b, "s": s, "hidden": hidden, "layers": layers, "sms": sms, "blas_workspace": 777})
    weights, momenta = [], []
    for _ in range(layers):
        weights.append(_tensor(stream, "weight", (hidden, 3 * hidden), 4, "parameters"))
        _tensor(stream, "norm", (hidden,), 4, "parameters")
    stream.cut("load", "load")
    for step in range(steps):
        kept = [_tensor(stream, "embedding", (b, s, hidden), 2, "activations")]
        for layer in range(layers):
            kept.append(_tensor(stream, "mm", (b, s, hidden), 2, "activations"))
            if step == layer == 0:
                stream.alloc(Seen(777, "mm", hold=Hold.KEPT, category="workspace", label="mm"))
            mask = _tensor(stream, "mask", (1, -(-s // 32) * 32), 1, "temporaries")
            stream.free(mask)
        labels = _tensor(stream, "labels", (b, s - 1), 8, "activations")
        stream.cut("forward", "forward")
        stream.free(labels)
        gradients = []
        for _ in range(layers):
            size = 8 * b * s if b * s > 1000 else 0
            scratch = stream.alloc(
                Seen(size, "sum", scratch=("above", (b * s, 1000, 8 * b * s)), label="sum")
            )
            stream.free(scratch)
            gradients.append(_tensor(stream, "weight_gradient", (hidden, 3 * hidden), 4, "gradients"))
            stream.free(kept.pop())
        stream.free(kept.pop())
        stream.cut("backward", "backward")
        if step == 0:
            momenta += [
                _tensor(stream, "zeros", (hidden, 3 * hidden), 4, "optimizer state") for _ in range(layers)
            ]
        stream.cut("optimizer", "optimizer")
        for gradient in reversed(gradients):
            stream.free(gradient)
        stream.cut("clear", "optimizer")
    assert len(weights) == len(momenta) == layers
    return stream
