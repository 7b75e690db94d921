"""Text of a snapshot can neither steer a terminal nor give away what --redact takes out."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from hypothesis import given, settings

from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.snapshot.model import Growth, Leak, Pin, Retry
from oomph.memory.categories import Category
from oomph.memory.stacks import Frame
from oomph.report.options import ReportOptions
from oomph.report.snapshot.json import render_json
from oomph.report.snapshot.markdown import render_markdown
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.text import render_text
from tests.report.snapshot import fakes
from tests.report.test_redact_everywhere import planted

RENDERERS = {"text": render_text, "markdown": render_markdown, "json": render_json}

PRIVATE = (
    "/home/zqalice/secret/run.py on zqnode-7.cluster.internal, token hf_AbCdEf123456 and WANDB_API_KEY=zqkeyzq1 "
    "by zqalice@zqnode.example.com from 10.17.33.201"
)
SECRETS = ("zqalice", "zqnode", "hf_AbCdEf123456", "zqkeyzq1", "10.17.33.201", "zqowner")


def with_text_everywhere(text: str):
    """The fullest fake with `text` wherever text of a file can stand."""
    frame = Frame(text, text, 3)
    frames = (frame, Frame("run", f"/home/zqowner/{text}.py", 4))
    report = fakes.full()
    base = report.devices[0]
    assert base.failure is not None
    assert base.what_if is not None
    assert base.steps is not None
    pin = Pin(512, 1024, frames, frame, Category.UNKNOWN)
    failure = dataclasses.replace(
        base.failure, says=text, frames=frames, pins=(pin,), ruled_out=(RuledOut("full", text),)
    )
    leak = Leak(frames, frame, Category.UNKNOWN, 512, 1.0, 4, 2048, 0, Certainty.LIKELY)
    retry = Retry(1, 2, 3, 4, 5, None, Certainty.POSSIBLE, text, frames)
    trial = dataclasses.replace(fakes.TRIALS[0], caveat=text, change=text)
    device = dataclasses.replace(
        base,
        moment=dataclasses.replace(base.moment, frames=frames),
        holders=tuple(dataclasses.replace(one, frames=frames, place=frame) for one in base.holders),
        steps=dataclasses.replace(base.steps, why=text),
        failure=failure,
        retries=(retry,),
        growth=Growth(text, 4, (leak,), 512),
        what_if=dataclasses.replace(
            base.what_if, says=text, capacity_how=text, trials=(trial,), worth_trying=trial
        ),
        notes=(text,),
    )
    finding = dataclasses.replace(fakes.FINDING, says=text, name=text)
    return dataclasses.replace(
        report,
        source="/data/zqowner/run.pickle",
        settings=text,
        devices=(device, dataclasses.replace(device, index=1)),
        findings=(finding,),
        ruled_out=(RuledOut("leak", text),),
        notes=(text,),
    )


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("name", RENDERERS)
def test_redact(name, everything):
    options = SnapshotOptions(redact=True, width=200, everything=everything, stacks=True)
    text = RENDERERS[name](with_text_everywhere(PRIVATE), options)
    joined = text.replace("\u200b", "")
    assert [secret for secret in SECRETS if secret in joined] == []


@settings(max_examples=25, deadline=None)
@given(planted())
def test_no_planted_secret_survives(case):
    text, secrets = case
    report = with_text_everywhere(text)
    options = SnapshotOptions(redact=True, width=200, everything=True, stacks=True)
    for name, render in RENDERERS.items():
        output = render(report, options)
        forms = (output, re.sub(r"\s+[|]?\s*", "", output), output.replace("\u200b", ""))
        for secret in [*secrets, "zqowner"]:
            assert not any(secret in form for form in forms), (name, secret)


def test_a_library_stays_one():
    """The place to look at is the user's, although the library's path has lost what tells it."""
    failure = dataclasses.replace(fakes.FAILURE, frames=(fakes.LINEAR, fakes.BLOCK))
    text = render_text(fakes.with_device(failure=failure), SnapshotOptions(redact=True, width=100))
    assert text.startswith(
        "GPU 0: a request of 1024.00 MiB failed in backward at <path>/model.py:212 (forward)"
    )


def test_what_is_not_private_stays():
    text = render_text(fakes.full(), SnapshotOptions(redact=True, stacks=True))
    assert "torch/nn/modules/linear.py:125, in forward" in text
    assert "<path>/model.py:212, in forward" in text
    assert "expandable_segments:True" in text
    assert "max_split_size_mb:128" in text


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_nothing_steers_the_terminal_or_a_ci_service(name):
    evil = "\x1b]0;title\x07\x1b[2J\r::error::x\n::set-env name=A::b ##[command]\x9b31m\u202eabc\ud800"
    text = RENDERERS[name](with_text_everywhere(evil), SnapshotOptions(everything=True, stacks=True))
    assert [c for c in text if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"] == []
    assert [line for line in text.splitlines() if line.lstrip().startswith("::")] == []
    assert "##[" not in text
    text.encode("utf-8")


def test_json_holds_no_control_character():
    report = json.loads(RENDERERS["json"](with_text_everywhere("\x1b[2Ja\x00b"), SnapshotOptions()))
    assert report["snapshots"][0]["notes"] == ["ab"]


def test_plain_report_options_are_enough():
    assert render_text(fakes.full(), ReportOptions()) == render_text(fakes.full(), SnapshotOptions())


def test_a_frame_of_thousands_of_characters_is_cut():
    frame = Frame("f" * 10_000, "/workspace/" + "x" * 10_000 + ".py", 1)
    holder = fakes.holder(2**30, 1, Category.UNKNOWN, (frame,), place=frame)
    assert len(render_text(fakes.with_device(holders=(holder,), failure=None), SnapshotOptions())) < 8000
