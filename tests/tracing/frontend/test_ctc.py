"""ctc_loss: what its CUDA kernels keep."""

from __future__ import annotations

import pytest

from tests.tracing.programs import Seen, traced

_STEPS, _BATCH, _LABELS = 50, 16, 20

_LOSS = """
    logits = torch.randn(50, 16, 20, device="cuda", requires_grad=True)
    log_probs = logits.log_softmax(2)
    {lengths}
    mark()
    loss = torch.nn.functional.ctc_loss(log_probs, targets, inputs, labels, {more})
    print(tuple(loss.shape))
    loss.sum().backward()
    print(tuple(logits.grad.shape))
"""


def _run(lengths: str, more: str = "") -> Seen:
    return traced(_LOSS.format(lengths=lengths, more=more))


def _table(most: int) -> int:
    """float32 of batch x time steps x (labels with blanks between and around)."""
    return 4 * _BATCH * _STEPS * (2 * most + 1)


_ROWS = "targets = torch.randint(1, 20, (16, 30)).cuda(); inputs = torch.full((16,), 50); "


@pytest.mark.parametrize(
    "labels", ["[7] * 15 + [11]", "torch.tensor([7] * 15 + [11])", "torch.tensor([7] * 15 + [11]).cuda()"]
)
def test_the_longest_target_decides_the_table(labels: str) -> None:
    seen = _run(_ROWS + f"labels = {labels}")
    gradient = 4 * _STEPS * _BATCH * _LABELS
    counts = [("alloc", 8 * _BATCH)] * 3
    assert seen.printed == "()\n(50, 16, 20)\n"
    assert seen.events_after_mark[:5] == [*counts, ("alloc", _table(11)), ("alloc", 4 * _BATCH)]
    backward = seen.events_after_mark[5:]
    start = backward.index(("alloc", _table(11)))
    assert backward[start - 3 : start + 2] == [*counts, ("alloc", _table(11)), ("alloc", gradient)]


def test_concatenated_targets() -> None:
    seen = _run(
        "targets = torch.ones(48, dtype=torch.int64); inputs = [50] * 16; labels = [3] * 16",
        'reduction="sum"',
    )
    assert ("alloc", _table(3)) in seen.events_after_mark
    assert seen.printed == "()\n(50, 16, 20)\n"


def test_lengths_that_only_a_gpu_knows_are_the_most() -> None:
    unknown = "labels = (logits[0].sum(1) * 3).long()"
    seen = _run(_ROWS + unknown, 'reduction="none", zero_infinity=True')
    assert ("alloc", _table(30)) in seen.events_after_mark
    assert seen.printed == "(16,)\n(50, 16, 20)\n"
    assert any("as large as they can be" in one for one in seen.assumptions)
    seen = _run("targets = torch.ones(100, device='cuda').long(); inputs = [50] * 16; " + unknown)
    assert ("alloc", _table(50)) in seen.events_after_mark


def test_one_sequence_without_a_batch() -> None:
    seen = traced("""
        log_probs = torch.randn(9, 5, device="cuda").log_softmax(1).requires_grad_()
        targets = torch.tensor([1, 2, 3], device="cuda")
        loss = torch.nn.CTCLoss(reduction="none")(log_probs, targets, torch.tensor(9), torch.tensor(3))
        print(tuple(loss.shape))
        loss.backward()
        print(tuple(log_probs.grad.shape))
    """)
    assert seen.printed == "()\n(9, 5)\n"
    assert ("alloc", 4 * 9 * 7) in seen.events
    assert "aten._ctc_loss" not in seen.unruled


def test_what_cudnn_would_run_is_said() -> None:
    seen = _run("targets = torch.ones(48, dtype=torch.int32); inputs = [50] * 16; labels = [3] * 16")
    assert any("cuDNN" in one for one in seen.assumptions)


def test_half_precision_is_refused_as_by_pytorch() -> None:
    seen = traced("""
        try:
            torch.nn.functional.ctc_loss(
                torch.zeros(5, 1, 4, device="cuda", dtype=torch.half), torch.ones(1, 2).long().cuda(), [5], [2]
            )
        except NotImplementedError as error:
            print(error)
    """)
    assert seen.printed == "\"ctc_loss_cuda\" not implemented for 'Half'\n"
