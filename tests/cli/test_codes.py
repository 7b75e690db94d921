"""Rules of explain and checks of doctor have their codes, causes and names in common."""

from __future__ import annotations

from collections import Counter

import pytest
from click.shell_completion import BashComplete

from oomph.cli.codes import load_all, load_checks, load_rules
from oomph.cli.main import cli
from oomph.cli.rule import SECTIONS


@pytest.mark.parametrize("attribute", ["code", "cause", "name"])
def test_nobody_shares(attribute):
    counts = Counter(getattr(one, attribute) for one in load_all())
    assert [value for value, count in counts.items() if count > 1] == []


def test_codes_say_whose_they_are():
    assert {one.code[:3] for one in load_rules()} == {"OOM"}
    assert {one.code[:3] for one in load_checks()} <= {"ENV", "SCR"}
    assert [one.code for one in load_all()] == sorted(one.code for one in load_all())


@pytest.mark.parametrize("one", load_checks(), ids=lambda one: one.code)
def test_every_check_has_its_page(one):
    for attribute in SECTIONS.values():
        text = getattr(one, attribute)
        assert text.strip()
        assert "TODO" not in text
    # A name or a cause is a word that `oomph rule` finds.
    assert " " not in one.cause
    assert one.name == one.name.strip()


def test_a_checks_page(run):
    result = run("rule", "ENV101")
    assert result.exit_code == 0
    assert result.stdout.startswith("ENV101  ")
    assert "\nDecisive evidence\n" in result.stdout
    assert any(line.startswith("ENV101  ") for line in run("rules").stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        (["rule"], "env10", "ENV101"),
        (["doctor", "--select"], "ENV101,env2", "ENV101,ENV201"),
        (["doctor", "--ignore"], "OOM", None),
        (["explain", "--select"], "ENV", None),
        (["explain", "--select"], "OOM1", "OOM101"),
    ],
)
def test_completion(words, incomplete, offered):
    completer = BashComplete(cli, {}, "oomph", "_OOMPH_COMPLETE")
    values = [item.value for item in completer.get_completions(words, incomplete)]
    assert offered in values if offered else values == []
