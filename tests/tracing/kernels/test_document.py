from __future__ import annotations

from pathlib import Path

import pytest
import torch

from oomph.tracing.kernels.document import table
from oomph.tracing.kernels.registry import all_rules

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "kernels.md"


def test_the_page_holds_the_table():
    text = _PAGE.read_text(encoding="utf-8")
    assert text[text.index("| rule |") :] == table()


def test_names_are_unique_and_every_rule_has_evidence():
    rules = all_rules().rules
    assert len({rule.name for rule in rules}) == len(rules) > 30
    assert all(len(rule.evidence) > 20 and rule.operators for rule in rules)


@pytest.mark.parametrize("rule", all_rules().rules, ids=lambda rule: rule.name)
def test_every_operator_of_a_rule_is_one_of_this_torch(rule):
    for operator in rule.operators:
        _, packet, *overload = operator.split(".")
        found = getattr(torch.ops.aten, packet)
        assert not overload or hasattr(found, overload[0])


def test_a_rule_can_be_left_out():
    names = [rule.name for rule in all_rules().without("reduction").rules]
    assert "reduction" not in names
    assert len(names) == len(all_rules().rules) - 1
