"""The rules against every call of their operators in recorded runs of real GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from oomph.tracing.kernels.blas import workspace_bytes
from tests.tracing.kernels.calls import A100, H100, aten, call, taken, tensor
from tests.tracing.kernels.recorded import calls, events, folder

FOLDER = folder() or Path()
pytestmark = pytest.mark.skipif(
    folder() is None,
    reason="no recorded snapshots here: put them at ../shared/snapshots, or name them in OOMPH_CONFORMANCE",
)
LARGE = "transformer-2.7b-ctx128-full-step.pickle"
SMALL = "transformer-small-ctx100-fwd-bwd.pickle"
MIXED = "transformer-small-ctx200-fwd-bwd-mixed.pickle"
MEDIUM = "transformer-medium-ctx512-training.pickle"
FINETUNE = "finetune-torch21.pickle"
THREE = "three-gpus-expandable-oom.pickle"


@pytest.mark.parametrize(
    ("name", "gpu", "version", "expected"),
    [
        (LARGE, H100, (2, 7), 1),
        (SMALL, A100, (2, 7), 2),
        (MIXED, A100, (2, 7), 2),
        ("tiny-from-empty.pickle", A100, (2, 7), 2),
        ("transformer-torch210.pickle", A100, (2, 10), 1),
        ("grad-profile.pickle", H100, (2, 4), 1),
        (THREE, A100, (2, 8), 2),
    ],
)
def test_cublas_workspaces(name, gpu, version, expected):
    found = [
        event
        for event in events(FOLDER / name, 0)
        if event.alloc and event.within("at::cuda::getCurrentCUDABlasHandle")
    ]
    assert [event.size for event in found] == [workspace_bytes(gpu, version)] * expected


def test_cublaslt_takes_a_mebibyte_for_each_call_of_torch_2_4():
    found = [event for event in events(FOLDER / "grad-profile.pickle", 0) if event.within("gemm_and_bias")]
    assert [event.size for event in found if event.alloc and not event.within("getNewWorkspace")] == [
        1_048_576
    ] * 3
    assert [event.size for event in found if not event.alloc] == [1_048_576] * 3


def _rows(shape, strides, op, gpu, version):
    dim = -1 if op is aten.max.dim else [-1]
    return tuple(
        taken("reduction", call(op, tensor(*shape, strides=strides), dim, True, gpu=gpu, torch=version))
    )


@pytest.mark.parametrize(
    ("name", "predicted", "least"),
    [
        (
            LARGE,
            {
                _rows((4, 128, 2560), (128, 1, 512), aten.sum.dim_IntList, H100, (2, 7)),
                _rows((4, 128, 10_000), (128, 1, 512), aten.sum.dim_IntList, H100, (2, 7)),
                _rows((4, 128, 10_000), (128, 1, 512), aten.max.dim, H100, (2, 7)),
            },
            67,
        ),
        (
            MIXED,
            {
                tuple(
                    taken("reduction", call(aten.sum.dim_IntList, tensor(10, 200, 512), [0, 1], torch=(2, 7)))
                )
            },
            20,
        ),
        (
            MEDIUM,
            {
                tuple(
                    taken(
                        "reduction", call(aten.sum.dim_IntList, tensor(4, 512, 1024), [0, 1], torch=(2, 10))
                    )
                )
            },
            49,
        ),
        (
            "tiny-from-empty.pickle",
            {tuple(taken("reduction", call(aten.sum.default, tensor(524_288), torch=(2, 7))))},
            1,
        ),
    ],
)
def test_every_scratch_of_a_reduction(name, predicted, least):
    sizes = [
        event.size for event in events(FOLDER / name, 0) if event.alloc and event.within("gpu_reduce_kernel")
    ]
    pairs = list(zip(sizes[::2], sizes[1::2], strict=True))
    assert len(pairs) >= least
    assert set(pairs) == predicted


@pytest.mark.parametrize("name", [LARGE, SMALL, MIXED, MEDIUM])
def test_every_index_put(name):
    found = 0
    for recorded in calls(FOLDER / name, "_index_put_impl_"):
        sizes = [event.size for event in recorded if event.alloc]
        array = 8 * (sizes[0] // 8)
        count = sizes[0] // 8
        value = next((size for size in sizes if size > array), 0)
        indices = [tensor(count, dtype=torch.int64)]
        if len(sizes) == 7 and not value:  # one index was on the CPU, as in logits[arange, targets]
            indices.insert(0, torch.arange(count))
            given = call(aten._index_put_impl_.default, tensor(count, 10_000), indices, tensor(count), True)
        else:
            width = max(1, value // (4 * count))
            strides = (1, count) if value else (width, 1)
            target = tensor(10_000, width)
            given = call(
                aten._index_put_impl_.default, target, indices, tensor(count, width, strides=strides), True
            )
        assert taken("index_put", given) == sizes
        found += 1
    assert found >= 1


def test_every_nonzero():
    found = 0
    for recorded in calls(FOLDER / THREE, "nonzero"):
        sizes = [event.size for event in recorded if event.alloc]
        count = 5000 if sizes[1] > 1 else 100  # more or fewer than a tile of 4096
        mine = taken("nonzero", call(aten.nonzero.default, tensor(count, dtype=torch.bool)))
        assert [sizes[0], sizes[1], sizes[3]] == mine
        found += 1
    assert found >= 10


def test_every_backward_of_efficient_attention():
    query = tensor(2, 16, 1000, 64, strides=(1_024_000, 64, 1024, 1))
    rest = (None, query, None, None, None, 0.0, [True, True, True, False])
    what = call(
        aten._scaled_dot_product_efficient_attention_backward.default, query, query, query, query, *rest
    )
    recorded = list(calls(FOLDER / FINETUNE, "_scaled_dot_product_efficient_attention_backward"))
    assert len(recorded) == 22
    for events_of_call in recorded:
        sizes = [event.size for event in events_of_call if event.alloc]
        assert sizes[:3] == [8_192_000] * 3
        assert sizes[3:] == taken("sdpa_efficient_backward", what)


def test_every_forward_of_efficient_attention_saves_its_rows():
    recorded = list(calls(FOLDER / FINETUNE, "_scaled_dot_product_efficient_attention"))
    assert len(recorded) == 22
    for events_of_call in recorded:
        assert [event.size for event in events_of_call if event.alloc] == [
            2 * 16 * 1000 * 64 * 4,
            2 * 16 * 1024 * 4,
        ]


def test_every_dropout_makes_its_mask_first():
    found = 0
    for recorded in calls(FOLDER / FINETUNE, "native_dropout"):
        mask, result = (event.size for event in recorded if event.alloc)
        assert result == 4 * mask
        found += 1
    assert found >= 40
