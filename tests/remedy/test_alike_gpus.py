"""Pieces that GPUs share: a search's peaks are those of a prediction for the GPU itself."""

from __future__ import annotations

import gc

import pytest

from oomph.hardware.names import gpu
from oomph.job.model import Batch, Checkpointing, Framework, Hardware, Job, Parallel, Precision
from oomph.job.names import model
from oomph.job.resolve import resolve
from oomph.predict.engine.asked import Question, same_answers, with_slack
from oomph.predict.plan import peak_bytes
from oomph.remedy.search import fit
from oomph.remedy.short import short_peak_bytes

GPUS = ("l4", "a100-40gb", "h100-80gb", "h200", "b200", "b300")


def job(name: str, **more: object) -> Job:
    settings: dict[str, object] = {
        "model": model("meta-llama/Llama-3.1-8B"),
        "precision": Precision(weights="fp32", compute="bf16", autocast=True),
        "batch": Batch(micro=2, sequence=2048),
        "framework": Framework(name="transformers"),
        "hardware": Hardware(gpu=name, gpus=8 if "parallel" in more else 1, per_node=8),
        **more,
    }
    return resolve(Job(**settings))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"checkpointing": Checkpointing(mode="full")},
        {"parallel": Parallel(strategy="fsdp2_full", data=8)},
        {"batch": Batch(micro=2, sequence=2048, padding="longest")},
    ],
    ids=["plain", "checkpointed", "sharded", "masked"],
)
def test_each_gpu_has_its_own_peak(more: dict[str, object]) -> None:
    """The search takes pieces from one GPU to the next; whole predictions, made in the other order, do not differ."""
    quick = {name: short_peak_bytes(job(name, **more)) for name in GPUS}
    whole = {name: peak_bytes(job(name, **more)) for name in reversed(GPUS)}
    for name in GPUS:  # the loss of the step before may be there or not
        assert quick[name] == pytest.approx(whole[name], abs=4096), name


def test_hopper_has_larger_workspaces() -> None:
    """Two threads multiply, each with 32 MiB instead of 2 * 4096 KiB + 8 * 16 KiB (CublasHandlePool.cpp)."""
    more = 2 * (32 * 1024**2 - (2 * 4096 * 1024 + 8 * 16 * 1024))
    full = {"checkpointing": Checkpointing(mode="full")}
    hopper, ampere = (short_peak_bytes(job(name, **full)) for name in ("h200", "a100-80gb"))
    assert hopper is not None
    assert ampere is not None
    assert hopper - ampere == more


def test_slack_of_a_moment() -> None:
    """Block 0 of 4096 bytes and, after it has gone, block 1 of 512: a moment's block may grow up to 4096."""
    question = Question(lambda _: 512, 512, event=2)
    (found,) = with_slack([question], [0, ~0, 1, ~1], [4096, 512], 0)
    assert found.most == 4096


def test_no_slack_where_the_moment_is_the_peak() -> None:
    """Block 1 makes the peak: another size would be another peak."""
    question = Question(lambda _: 8192, 8192, event=2)
    (found,) = with_slack([question], [0, ~0, 1, ~1], [4096, 8192], 0)
    assert found.most == -1


def test_a_smaller_answer_is_not_the_same_piece() -> None:
    """Peaks alone may stay the same; a replay needs the very sizes."""
    asked = [Question(lambda other: 512 * other.multiprocessors, 512 * 58, event=0, most=512 * 120)]
    assert same_answers(asked, gpu("l4"))
    assert not same_answers(asked, gpu("a100-40gb"))
    assert same_answers(asked, gpu("a100-40gb"), peaks_only=True)  # 108 multiprocessors
    assert not same_answers(asked, gpu("h200"), peaks_only=True)  # 132


def test_a_search_leaves_the_collector_as_it_was() -> None:
    """Also where the predictor fails."""
    before = gc.get_threshold()

    def fails(_: Job) -> int:
        raise RuntimeError("no prediction")

    with pytest.raises(RuntimeError, match="no prediction"):
        fit(job("l4"), predictor=fails, replay=False)
    assert gc.get_threshold() == before
