from __future__ import annotations

import dataclasses

import pytest

from oomph.diagnose.model import Certainty
from oomph.evidence.model import Quote
from oomph.report.github import command, render_github
from oomph.report.options import ReportOptions
from tests.report import fakes


def test_a_failure_is_an_error_on_the_line_that_proves_it():
    lines = render_github(fakes.fatal(), ReportOptions()).splitlines()
    assert lines[0] == (
        "::error file=logs/train.log,line=412,title=OOM201 activations-fill-the-card::"
        "CUDA out of memory in backward on rank 1 (GPU 1), after training step 44. "
        "Likely: Activations kept for backward fill the card: 76.12 GiB are allocated and only 737.28 MiB are cached."
        "%0AAsked for 580.00 MiB, 328.62 MiB was free: 251.38 MiB short."
        "%0AFirst change: Halve the micro-batch to 2 and double accumulation"
    )
    assert lines[1].startswith("::warning file=logs/train.log,line=12,title=OOM203 logits-too-large::")
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("recovered", "::notice title=oomph explain::The job recovered from 2 out-of-memory errors"),
        ("no_oom", "::notice title=oomph explain::No out-of-memory failure found in 2 files (1,204 lines)"),
        ("unknown_phase", "::error title=oomph explain::CUDA out of memory on GPU 0"),
        ("doctored", "::error file=logs/train.log,line=9,title=oomph explain::"),
        ("host_kill", "::warning file=logs/train.log,line=77,title=OOM401 host-memory-exhausted::"),
        ("look_alike", "::notice file=logs/train.log,line=61,title=OOM601 "),
    ],
)
def test_one_annotation_at_least(name, start):
    text = render_github(fakes.ALL[name](), ReportOptions())
    assert text.startswith(start)
    assert len(text.splitlines()) == 1


def test_escapes():
    place = Quote("a,b:c%.log", 0, "")
    assert command("error", "50 %\nnext\r", "x:y,z", place) == (
        "::error file=a%2Cb%3Ac%25.log,title=x%3Ay%2Cz::50 %25%0Anext%0D"
    )


def test_a_log_cannot_add_a_command():
    finding = dataclasses.replace(
        fakes.ACTIVATIONS,
        says="x\n::add-mask::y",
        certainty=Certainty.CERTAIN,
        evidence=(fakes.quote(2, "z", "a\n::b.log"),),
    )
    text = render_github(dataclasses.replace(fakes.fatal(), findings=(finding,)), ReportOptions())
    assert len(text.splitlines()) == 1


def test_long_texts_are_cut():
    finding = dataclasses.replace(fakes.ACTIVATIONS, says="word " * 2000)
    text = render_github(dataclasses.replace(fakes.fatal(), findings=(finding,)), ReportOptions())
    assert len(text) < 4000
