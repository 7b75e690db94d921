from __future__ import annotations

import io

import pytest

from oomph.cli.output import emit
from oomph.cli.progress import LARGE_BYTES, Progress
from oomph.cli.terminal import can_draw, use_colour, width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "environment", "terminal", "coloured"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),  # no-color.org: only when not empty
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_when_to_colour(choice, environment, terminal, coloured):
    stream = Terminal() if terminal else io.StringIO()
    assert use_colour(choice, stream, environment) is coloured


@pytest.mark.parametrize(("columns", "expected"), [("80", 80), ("20", 40), ("300", 100), ("72", 72)])
def test_width(monkeypatch, columns, expected):
    monkeypatch.setenv("COLUMNS", columns)
    assert width() == expected


@pytest.mark.parametrize(("encoding", "drawable"), [("utf-8", True), ("ascii", False), ("cp1252", False)])
def test_whether_the_encoding_has_the_drawing_characters(encoding, drawable):
    assert can_draw(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is drawable


def test_progress_draws_on_a_terminal_when_the_input_is_large():
    stream = Terminal()
    progress = Progress(stream)
    progress(60_000_000, 240_000_000)
    assert stream.getvalue() == "\rreading 60 MB of 240 MB (25%)"
    progress.finish()
    assert stream.getvalue().endswith("\r" + " " * 29 + "\r")


def test_progress_of_an_unknown_total():
    stream = Terminal()
    Progress(stream)(LARGE_BYTES + 1, 0)
    assert stream.getvalue() == "\rreading 50 MB"


@pytest.mark.parametrize(
    ("stream", "options", "total"),
    [
        (Terminal(), {}, LARGE_BYTES),
        (Terminal(), {"quiet": True}, 2 * LARGE_BYTES),
        (io.StringIO(), {}, 2 * LARGE_BYTES),
        (io.StringIO(), {"verbose": True}, 2 * LARGE_BYTES),
    ],
)
def test_progress_is_silent_otherwise(stream, options, total):
    progress = Progress(stream, **options)
    progress(1, total)
    progress.finish()
    assert stream.getvalue() == ""


def test_verbose_draws_for_small_inputs_too():
    stream = Terminal()
    Progress(stream, verbose=True)(1_000_000, 2_000_000)
    assert stream.getvalue() == "\rreading 1 MB of 2 MB (50%)"


def test_updates_are_rare():
    stream = Terminal()
    progress = Progress(stream)
    for done in range(1000):
        progress(LARGE_BYTES + done, 0)
    assert stream.getvalue().count("\r") < 10


def test_a_closed_standard_output_is_no_terminal():
    assert use_colour("auto", None, {}) is False
    assert can_draw(None) is False


def test_nothing_is_written_to_a_closed_standard_output(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    emit("text")
