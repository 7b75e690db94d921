from __future__ import annotations

import dataclasses
import re

import pytest

from oomph.diagnose.model import Diagnosis, Outcome, RankVerdict, Step
from oomph.evidence.model import Evidence
from oomph.report.layout import cells
from oomph.report.options import ReportOptions
from oomph.report.text import render_text
from oomph.report.text_advice import paste_lines
from tests.report import fakes
from tests.report.golden import assert_golden

#: Commands and code to paste are as long as they are.
PASTED = ("      torchrun", "         model.", "        torch.cuda")
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", sorted(fakes.ALL))
def test_the_whole_report_at_80_columns(name):
    text = render_text(fakes.ALL[name](), ReportOptions())
    assert max(cells(line) for line in text.split("\n")) <= 80
    assert_golden(f"{name}.txt", text)


GOLDEN_OPTIONS = {
    "several_ranks_all_evidence": (
        fakes.several_ranks,
        ReportOptions(all_incidents=True, explain_evidence=True),
    ),
    "several_ranks_rank_3": (fakes.several_ranks, ReportOptions(rank=3)),
    "several_ranks_rank_7": (fakes.several_ranks, ReportOptions(rank=7)),
    "fatal_ascii": (fakes.fatal, ReportOptions(unicode=False)),
    "fatal_narrow": (fakes.fatal, ReportOptions(width=40)),
    "fatal_redacted": (fakes.fatal, ReportOptions(redact=True, explain_evidence=True)),
}


@pytest.mark.parametrize("name", sorted(GOLDEN_OPTIONS))
def test_options(name):
    build, options = GOLDEN_OPTIONS[name]
    text = render_text(build(), options)
    assert max(cells(line) for line in text.split("\n") if not line.startswith(PASTED)) <= options.width
    assert_golden(f"{name}.txt", text)


@pytest.mark.parametrize("name", sorted(fakes.ALL))
def test_colour_only_adds_codes(name):
    plain = render_text(fakes.ALL[name](), ReportOptions())
    coloured = render_text(fakes.ALL[name](), ReportOptions(colour=True))
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert SGR.sub("", coloured) == plain


@pytest.mark.parametrize("name", sorted(fakes.ALL))
def test_ascii_draws_nothing_else(name):
    assert render_text(fakes.ALL[name](), ReportOptions(unicode=False)).isascii()


def test_a_recovered_job_is_said_to_have_gone_on():
    text = render_text(fakes.recovered(), ReportOptions())
    assert "The job went on after that: it did not end for lack of memory." in text
    assert text.index("Incidents") < text.index("Memory of GPU 0")


def test_many_recoveries_are_counted_and_listed_with_all():
    text = render_text(fakes.recovered(25), ReportOptions())
    assert "and 15 more; --all lists them" in text
    assert "line 280" in render_text(fakes.recovered(25), ReportOptions(all_incidents=True))


def test_the_segment_is_explained_once():
    text = render_text(fakes.several_ranks(), ReportOptions(all_incidents=True, explain_evidence=True))
    assert text.count("is the segment, not the tensor") == 1


def test_every_quote_number_is_in_the_list():
    text = render_text(fakes.fatal(), ReportOptions(explain_evidence=True))
    body, _, listed = text.partition("\nEvidence\n")
    used = {int(number) for marks in re.findall(r"\[([\d, ]+)\]", body) for number in marks.split(", ")}
    assert used == {int(number) for number in re.findall(r"^  \[(\d+)\]", listed, re.MULTILINE)}
    assert used == {1, 2, 3, 4, 5, 6}


def test_a_note_that_explains_contradicting_numbers_replaces_them():
    diagnosis = fakes.doctored()
    assert diagnosis.incident is not None
    problem = diagnosis.incident.ledger.problems[0].text
    text = render_text(
        dataclasses.replace(diagnosis, notes=(f"{problem}; the log is damaged.",)), ReportOptions()
    )
    assert text.count("0 bytes), which cannot be") == 1
    assert "see the notes" in text


def test_paste_lines_are_never_wrapped():
    command = "python train.py " + " ".join(f"--option-{number} {number}" for number in range(20))
    diagnosis = fakes.fatal()
    assert diagnosis.advice is not None
    first = dataclasses.replace(diagnosis.advice.first, paste=command)
    advice = dataclasses.replace(diagnosis.advice, first=first)
    assert f"      {command}\n" in render_text(dataclasses.replace(diagnosis, advice=advice), ReportOptions())


def test_other_errors_are_counted_after_five():
    errors = tuple(fakes.quote(number, f"ValueError: {number}") for number in range(1, 9))
    text = render_text(dataclasses.replace(fakes.no_oom(), other_errors=errors), ReportOptions())
    assert "ValueError: 5" in text
    assert "ValueError: 6" not in text
    assert "and 3 more" in text


def test_a_thousand_ranks_are_ranges():
    diagnosis = fakes.several_ranks()
    dead = {rank: "was stopped by the launcher" for rank in range(1024) if rank not in (1, 3)}
    text = render_text(
        dataclasses.replace(diagnosis, ranks=dataclasses.replace(diagnosis.ranks, consequences=dead)),
        ReportOptions(),
    )
    assert "ranks 0, 2, 4-1023 died of it: was stopped by the launcher" in text


def test_the_emptiest_diagnosis():
    empty = Diagnosis(Outcome.FAILED, "", None, (), RankVerdict(None, ""), (), (), Evidence(documents=()))
    assert render_text(empty, ReportOptions()).startswith("A failure for lack of memory\n\nWhy\n")
    nothing = dataclasses.replace(empty, outcome=Outcome.NO_OOM)
    assert render_text(nothing, ReportOptions()) == "No out-of-memory failure found in 0 files (0 lines)\n"


def test_comments_of_pasted_code_stand_above_lines_that_are_too_long():
    code = (
        'config = LoraConfig(r=16, task_type="CAUSAL_LM")   # adapters for all layers that are linear\n'
        "x = 1   # short\n"
        'echo "# no comment, but a very long line of the shell that has to stay as it is, blanks and all"\n'
        "srun --mem=0 \\\n"
        "    python train.py --with-many-options --and-more-of-them   # a comment that cannot move up\n"
    )
    step = Step("x", "Title", "Text", paste=code)
    assert paste_lines(step, "      ", 80) == [
        "",
        "      # adapters for all layers that are linear",
        '      config = LoraConfig(r=16, task_type="CAUSAL_LM")',
        "      x = 1   # short",
        '      echo "# no comment, but a very long line of the shell that has to stay as it is, blanks and all"',
        "      srun --mem=0 \\",
        "          python train.py --with-many-options --and-more-of-them   # a comment that cannot move up",
        "",
    ]
