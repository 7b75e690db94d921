from __future__ import annotations

import dataclasses

import pytest

from oomph.diagnose.model import Outcome
from oomph.report.options import ReportOptions
from oomph.report.view import prepare
from tests.report import fakes


def test_without_a_rank_everything_is_shown():
    view = prepare(fakes.several_ranks(), ReportOptions())
    assert view.is_explained
    assert len(view.incidents) == 3


def test_a_rank_selects_its_own_incident():
    view = prepare(fakes.several_ranks(), ReportOptions(rank=3))
    assert view.incident is not None
    assert view.incident.rank == 3
    assert [incident.rank for incident in view.incidents] == [3]
    assert not view.is_explained


def test_a_rank_that_only_died_of_it_shows_what_it_died_of():
    view = prepare(fakes.several_ranks(), ReportOptions(rank=7))
    assert view.is_explained
    assert view.incident is not None
    assert view.incident.rank == 1
    assert view.incidents == ()


def test_a_rank_that_is_known_by_other_means_keeps_the_incident():
    diagnosis = fakes.fatal()
    assert diagnosis.incident is not None
    unnamed = dataclasses.replace(diagnosis.incident, rank=None)
    view = prepare(
        dataclasses.replace(diagnosis, incident=unnamed, incidents=(unnamed,)), ReportOptions(rank=1)
    )
    assert view.is_explained
    assert view.incident is not None
    assert len(view.incidents) == 1


@pytest.mark.parametrize(("line", "step"), [(300, None), (301, "43"), (449, "44")])
def test_the_last_step_is_the_last_one_before_the_failure(line, step):
    diagnosis = fakes.fatal()
    incident = fakes.backward_incident(line=line + 1)
    view = prepare(dataclasses.replace(diagnosis, incident=incident, incidents=(incident,)), ReportOptions())
    assert view.last_step == step


def test_every_string_is_cleaned_and_cut():
    diagnosis = fakes.no_oom()
    dirty = dataclasses.replace(
        diagnosis,
        summary="\x1b[31mred\x07",
        notes=("x" * 100_000,),
        other_errors=(fakes.quote(1, "bell\x07\x1b[2J", "a\x1b[1mb.log"),),
    )
    shown = prepare(dirty, ReportOptions()).diagnosis
    assert shown.outcome is Outcome.NO_OOM
    assert shown.summary == "red"
    assert shown.other_errors[0].text == "bell"
    assert shown.other_errors[0].source == "ab.log"
    assert len(shown.notes[0]) < 9000
    assert "92,000 more characters" in shown.notes[0]


def test_redaction_keeps_oomphs_own_keys():
    diagnosis = fakes.fatal()
    plain = prepare(diagnosis, ReportOptions()).diagnosis
    redacted = prepare(diagnosis, ReportOptions(redact=True)).diagnosis
    assert [finding.code for finding in redacted.findings] == [finding.code for finding in plain.findings]
    assert [fact.name for fact in redacted.job] == [fact.name for fact in plain.job]
    assert redacted.incident is not None
    assert redacted.incident.failure.format == "F8_211"
    assert redacted.incident.phase.frame is not None
    assert redacted.incident.phase.frame.file == "<path>/train.py"
