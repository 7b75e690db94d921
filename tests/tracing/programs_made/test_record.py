"""`record` takes any module class: here one whose program can be written down by hand."""

from __future__ import annotations

import pytest

from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.record import record

SETS = [
    {"b": b, "s": s, "hidden": hidden, "layers": 3}
    for b, s, hidden in ((7, 96, 136), (5, 160, 232), (3, 224, 88), (11, 64, 328), (9, 128, 152))
]


def record_net(change=None, *, dimension_sets=SETS, **more):
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(width))

        def forward(self, x):
            y = x * self.weight
            if change is not None:
                y = change(self, y)
            return torch.relu(y) + x

    class Net(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.words = nn.Embedding(10, width)
            self.layers = nn.ModuleList(Layer(width) for _ in range(3))
            for number, layer in enumerate(self.layers):
                layer.number = number
            self.head = nn.Linear(width, 10)

        def forward(self, ids):
            x = self.words(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    def run(net, batch, dimensions):
        logits = net(batch["input_ids"])
        return {"loss": logits.sum(), "logits": logits}

    return record(
        lambda dimensions: Net(dimensions["hidden"]),
        run,
        layers="layers",
        head="head",
        dimension_sets=dimension_sets,
        names=("b", "s", "hidden"),
        **more,
    )


def test_a_layer_is_written_down_as_it_is():
    made = record_net(precision="fp32")
    block = made.sections["block"]
    size = "4*b*hidden*s"
    assert block["storages"] == [
        ["in", size],
        ["parameter", "4*hidden", "weight"],
        ["own", size],
        ["own", size],
        ["own", size],
    ]
    shape = ["b", "s", "hidden"]
    assert block["tensors"] == [
        [0, shape, None, "fp32"],
        [1, ["hidden"], None, "fp32"],
        [2, shape, None, "fp32"],
        [3, shape, None, "fp32"],
        [4, shape, None, "fp32"],
    ]
    assert block["items"] == [
        ["op", "aten.mul.Tensor", [{"t": 0}, {"t": 1}], [2]],
        ["op", "aten.relu.default", [{"t": 2}], [3]],
        ["op", "aten.add.Tensor", [{"t": 3}, {"t": 0}], [4]],
        ["drop", 3],
        ["drop", 2],
        ["drop", 0],
    ]
    assert (block["in"], block["out"]) == (0, 4)
    assert list(made.sections) == ["before", "block", "after", "loss"]
    assert made.kept == {"loss": ["loss", 1], "logits": ["after", made.sections["after"]["out"]]}


def test_the_copies_that_autocast_keeps_die_when_it_is_left():
    made = record_net(precision="fp32-autocast")
    after, loss = made.sections["after"], made.sections["loss"]
    casts = [item for item in after["items"] if item[1] == "aten._to_copy.default"]
    copies = {after["tensors"][item[3][0]][0]: item[2][0]["t"] for item in casts}
    dropped = [item[1] for item in loss["items"] if item[0] == "drop"]
    links = [link for at, *link in loss["storage_links"] if at in dropped]
    # The head's input dies in the head, its weight and bias later; and what the last layer returned is a variable.
    kept = [number for section, number in links if section == "after"]
    assert sorted(after["storages"][number][1] for number in kept) == ["20", "20*hidden"]
    assert all(after["storages"][after["tensors"][copies[number]][0]][0] == "parameter" for number in kept)
    assert [number for section, number in links if section == "block"] == [4]


def test_a_first_layer_that_does_more_is_a_section_of_its_own():
    made = record_net(lambda layer, y: y if layer.number else y.exp())
    assert [item[1] for item in made.sections["first"]["items"] if item[0] == "op"] == [
        "aten.mul.Tensor",
        "aten.exp.default",
        "aten.relu.default",
        "aten.add.Tensor",
    ]
    assert "aten.exp.default" not in str(made.sections["block"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda layer, y: y.exp() if layer.number == 2 else y, "layers differ"),
        (lambda layer, y: y.exp() if y.shape[-1] == 232 else y, "what runs depends on the dimensions"),
        (lambda layer, y: y[:, : y.shape[1] ** 2 % 61 + 1].sum() + y, "is no expression of the dimensions"),
    ],
    ids=["the last layer", "one of the runs", "a size"],
)
def test_what_is_no_program_is_refused(change, sentence):
    with pytest.raises(ProgramError, match=sentence):
        record_net(change)


def test_fewer_layers_than_three_are_not_enough():
    import torch

    with pytest.raises(ProgramError, match="has 2 layers; three at least are recorded"):
        record(
            lambda dimensions: torch.nn.ModuleDict(
                {"layers": torch.nn.ModuleList([torch.nn.Identity()] * 2), "head": torch.nn.Identity()}
            ),
            lambda net, batch, dimensions: {},
            layers="layers",
            head="head",
            dimension_sets=SETS,
        )
