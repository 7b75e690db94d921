"""Documents say what the code does: what is generated is up to date, what is written by hand links to what exists."""

from __future__ import annotations

import re

import pytest

from oomph.cli.codes import load_all
from oomph.cli.main import COMMANDS
from tests.conftest import ROOT
from tools import gen_docs

DOCUMENTS = sorted(
    path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
)


def test_generated_files_are_up_to_date():
    """Otherwise: `python tools/gen_docs.py`."""
    files = gen_docs.generated()
    old = [
        path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert [path.relative_to(ROOT).as_posix() for path in old + gen_docs.stale_pages(files)] == []


def test_the_readme_shows_the_output_of_its_first_command():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (
        "\n```text\n$ oomph explain examples/ddp-backward.log\nCUDA out of memory in backward on rank 2"
        in text
    )


def test_an_output_is_put_between_the_comments():
    before = "a\n<!-- output of: oomph --version -->\nold\n<!-- end of output -->\nb\n"
    after = gen_docs.with_outputs(before)
    assert re.fullmatch(
        r"a\n<!-- output of: oomph --version -->\n```text\n\$ oomph --version\noomph \d+\.\d+\.\d+\n```\n"
        r"<!-- end of output -->\nb\n",
        after,
    )
    assert gen_docs.with_outputs(after) == after


def test_an_output_may_end_before_a_line():
    before = '<!-- output of: oomph rule OOM301, up to "Decisive evidence" -->\n<!-- end of output -->\n'
    after = gen_docs.with_outputs(before)
    assert "\nWhat it means\n" in after
    assert "Decisive evidence\n" not in after
    assert after.endswith("\n[...]\n```\n<!-- end of output -->\n")
    with pytest.raises(RuntimeError, match="no line 'Nonsense'"):
        gen_docs.with_outputs(before.replace("Decisive evidence", "Nonsense"))


def test_a_command_that_fails_is_not_documented():
    with pytest.raises(RuntimeError, match="no-such-file"):
        gen_docs.output_of(["explain", "no-such-file"])


def test_every_command_is_in_the_reference():
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert [line.removeprefix("## oomph ") for line in text.splitlines() if line.startswith("## ")] == list(
        COMMANDS
    )


def test_every_rule_and_check_has_a_page():
    pages = {path.stem for path in (ROOT / "docs" / "rules").glob("*.md")} - {"index"}
    assert pages == {rule.code for rule in load_all()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []


def test_the_changelog_knows_the_version():
    import oomph

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{oomph.__version__}]" in text or "## [Unreleased]" in text
