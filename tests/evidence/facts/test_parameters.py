# ruff: noqa: E501 (lines as jobs print them)
"""Parameter counts."""

import pytest

from tests.evidence.facts.text import pairs


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("number of parameters: 353.77M", [("total_params", "353770000")]),
        ("worker 0: model 124.4M parameters built", [("total_params", "124400000")]),
        ("model ready, 6738.4M parameters", [("total_params", "6738400000")]),
        ("Model llama3 8B size: 8,030,261,248 total parameters", [("total_params", "8030261248")]),
        (
            "YOLO11m summary: 409 layers, 20,114,688 parameters, 20,114,672 gradients",
            [("total_params", "20114688")],
        ),
        ("INFO: trainable parameter count 34.6M", [("trainable_params", "34600000")]),
        ("Number of trainable parameters: 8,388,608", [("trainable_params", "8388608")]),
        ("Total parameters: 1.2B", [("total_params", "1200000000")]),
        (
            "number of trainable parameters: 859,520,964 (unet) + 123,060,480 (text encoder)",
            [("trainable_params", str(859_520_964 + 123_060_480))],
        ),
        (
            "LoRA: trainable 3,899,392 of 6,247,483,392",
            [("trainable_params", "3899392"), ("total_params", "6247483392")],
        ),
        (
            "Trainable parameters = 41,943,040/8,072,204,288 (0.52% trained)",
            [("trainable_params", "41943040"), ("total_params", "8072204288")],
        ),
        (
            "num. shared model params: 1,234,567,890 (num. trained: 1,234,000,000)",
            [("trainable_params", "1234000000"), ("total_params", "1234567890")],
        ),
        ("124 M     Trainable params", [("trainable_params", "124000000")]),
        ("6.2 B     Total params", [("total_params", "6200000000")]),
    ],
)
def test_counts(line, expected):
    assert pairs(line) == expected


def test_lightnings_table_of_one_module():
    text = "  | Name  | Type | Params | Mode \n-----\n0 | net   | UNet | 31.0 M | train\n-----\n"
    assert pairs(text) == [("total_params", "31000000")]


def test_lightnings_table_of_several_modules_gives_only_its_footer():
    text = (
        "  | Name  | Type | Params\n----\n0 | gen   | Net | 31.0 M\n1 | disc  | Net | 9.0 M\n----\n"
        "40.0 M    Trainable params\n0         Non-trainable params\n40.0 M    Total params\n"
    )
    assert pairs(text) == [("trainable_params", "40000000"), ("total_params", "40000000")]


def test_megatron_counts_one_rank():
    line = " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 235792896"
    sizes = "using world size: 8, data-parallel-size: 2, tensor-model-parallel size: {}, pipeline-model-parallel size: 1"
    assert ("total_params", "235792896") in pairs(sizes.format(1) + "\n" + line)
    assert "total_params" not in dict(pairs(sizes.format(4) + "\n" + line))
    assert pairs(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "num decayed parameter tensors: 98, with 354,501,632 parameters",
        "[rank 0] model sharded, 17.2B params per node group",
        "0         Non-trainable params",
        "497.759   Total estimated model params size (MB)",
        "the optimizer got 2 parameters",
        "frozen parameters: 100,000",
        "model has parameters",
    ],
)
def test_not_the_models_size(line):
    assert pairs(line) == []
