from __future__ import annotations

import json

import pytest
from click.shell_completion import BashComplete

from oomph.cli.main import cli


def test_rules_are_listed_one_a_line(run, engine):
    result = run("rules")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "OOM201  fragmentation  cached memory is in pieces",
        "OOM202  other_process  another process holds the card",
        "OOM301  host_ram       host memory ran out",
    ]


def test_rules_as_a_markdown_table(run, engine):
    lines = run("rules", "--format", "markdown").stdout.splitlines()
    assert lines[0] == "| Code | Cause | Name |"
    assert lines[2] == "| OOM201 | fragmentation | cached memory is in pieces |"


@pytest.mark.parametrize("word", ["OOM201", "oom201", "fragmentation", "Fragmentation"])
def test_a_rule_is_found_by_code_or_cause(run, engine, word):
    result = run("rule", word)
    assert result.exit_code == 0
    assert result.stdout.startswith("OOM201  cached memory is in pieces\ncause: fragmentation\n")
    for heading in (
        "What it means",
        "Decisive evidence",
        "First action",
        "How to verify",
        "Tempting, and wrong",
    ):
        assert f"\n{heading}\n  " in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_several_rules(run, engine):
    result = run("rule", "OOM301", "OOM201", "host_ram")
    assert result.stdout.index("OOM301") < result.stdout.index("OOM201")
    assert result.stdout.count("cause: host_ram") == 1


def test_a_rule_as_json(run, engine):
    (rule,) = json.loads(run("rule", "OOM202", "--format", "json").stdout)
    assert rule == {
        "code": "OOM202",
        "cause": "other_process",
        "name": "another process holds the card",
        "means": rule["means"],
        "decisive_evidence": "a number",
        "first_action": "one change",
        "verify": "look again",
        "wrong_advice": "buy a bigger card",
    }


def test_a_rule_as_its_page(run, engine):
    page = run("rule", "OOM202", "--format", "markdown").stdout
    assert page.startswith(
        "# OOM202: another process holds the card\n\nCause: `other_process`\n\n## What it means\n"
    )
    assert page.endswith("## Tempting, and wrong\n\nbuy a bigger card\n")


@pytest.mark.parametrize(("word", "meant"), [("OOM31", "OOM301"), ("fragmentaton", "fragmentation")])
def test_a_typing_error_is_answered_with_what_was_meant(run, engine, word, meant):
    result = run("rule", word)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no rule {word!r}" in result.stderr
    assert f"did you mean {meant}" in result.stderr


def test_an_unknown_code_points_to_the_list(run, engine):
    result = run("rule", "XYZ")
    assert result.exit_code == 2
    assert result.stderr == "oomph: no rule 'XYZ'; `oomph rules` lists them\n"


def test_no_code_is_a_usage_error(run, engine):
    assert run("rule").exit_code == 2


@pytest.mark.parametrize(
    ("shell", "mark"),
    [("bash", "complete -o nosort"), ("zsh", "#compdef oomph"), ("fish", "--command oomph")],
)
def test_completion_scripts(run, shell, mark):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_OOMPH_COMPLETE" in result.stdout
    assert mark in result.stdout


def test_completion_of_another_shell(run):
    result = run("completion", "tcsh")
    assert result.exit_code == 2
    assert "tcsh" in result.stderr


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        ([], "ex", ["explain"]),
        (["rule"], "oom2", ["OOM201", "OOM202"]),
        (["explain", "--select"], "OOM301,OOM20", ["OOM301,OOM201", "OOM301,OOM202"]),
        (["explain", "--format"], "s", ["sarif"]),
    ],
)
def test_what_completion_offers(engine, words, incomplete, offered):
    completer = BashComplete(cli, {}, "oomph", "_OOMPH_COMPLETE")
    assert [item.value for item in completer.get_completions(words, incomplete)] == offered
