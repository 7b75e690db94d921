from __future__ import annotations

import pytest
import torch

from oomph.tracing.kernels import plain
from oomph.tracing.kernels.registry import all_rules


def test_every_name_is_an_operator_of_this_torch():
    names = {
        name.split("::")[1].split(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
    }
    assert {name for name in plain.NAMES if name not in names and name + "_" not in names} == set()


@pytest.mark.parametrize(
    "name",
    [
        "aten.add",
        "aten.add_",
        "aten.view",
        "aten._foreach_add_",
        "aten.zero_",
        "aten.__iand__",
        "c10d.allreduce_",
    ],
)
def test_known(name):
    assert plain.known(name)


@pytest.mark.parametrize("name", ["aten.sort", "add", "mylib.add", "aten.__", "aten.mm", "aten._", "aten."])
def test_not_known(name):
    assert not plain.known(name)


def test_what_has_a_rule_is_not_called_plain_too():
    packets = {operator.split(".")[1] for rule in all_rules().rules for operator in rule.operators}
    assert sorted(packets & plain.NAMES) == []
