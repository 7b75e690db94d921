"""Planted secrets survive in no format, wherever in a diagnosis they stand."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.diagnose.model import Diagnosis, RuledOut, Step
from oomph.evidence.model import Fact, Frame, Position
from oomph.report.github import render_github
from oomph.report.json import render_json
from oomph.report.markdown import render_markdown
from oomph.report.options import ReportOptions
from oomph.report.sarif import render_sarif
from oomph.report.text import render_text
from tests.report import fakes

RENDERERS: dict[str, Callable[[Diagnosis, ReportOptions], str]] = {
    "text": render_text,
    "json": render_json,
    "markdown": render_markdown,
    "sarif": render_sarif,
    "github": render_github,
}
OPTIONS = ReportOptions(redact=True, explain_evidence=True, all_incidents=True, width=200)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMES = st.text(LETTERS, min_size=6, max_size=12).map(lambda text: f"zq{text}")
KEYS = st.text(LETTERS + LETTERS.upper() + "0123456789", min_size=12, max_size=36).map(
    lambda text: f"Zq7{text}"
)


@st.composite
def planted(draw) -> tuple[str, list[str]]:
    """A text and the secrets in it."""
    user, host, key = draw(NAMES), draw(NAMES), draw(KEYS)
    sentences = [
        (f'File "/home/{user}/secret/run.py", line 3', [user]),
        (rf"C:\Users\{user}\run.py", [user]),
        (f"/Users/{user}/x/y.log written for {user}", [user]),
        (f"  host      : {host}", [host]),
        (f"srun: error: {host}-7: task 3: Killed", [host]),
        (f"[{host}-0:4711] lost, node {host}-0", [host]),
        (f"{host}.cluster.internal is down", [host]),
        (f"{user}@{host}.example.com", [user, host]),
        (f"ssh {user}@{host}-3:/data", [user, host]),
        (f"https://{user}:{key}@{host}.io/p?k={key}", [user, key, host]),
        (f"hf_{key}", [key]),
        (f"ghp_{key} and sk-{key}", [key]),
        (f"WANDB_API_KEY={key}", [key]),
        (f'"password": "{key} {user}"', [key, user]),
        (f"--hub_token {key}", [key]) if any(c.isdigit() for c in key) else (f"--hub_token={key}", [key]),
        (f"Authorization: Bearer {key}", [key]),
        (f"View run at https://wandb.ai/{user}/p/runs/{key}", [user, key]),
        (f"s3://{host}/{user}/ckpt", [host, user]),
        (f"/lustre/{host}/{user}/ckpt/model.pt", [host, user]),
        ("from 10.17.33.201 port 22", ["10.17.33.201"]),
    ]
    chosen = draw(st.lists(st.sampled_from(sentences), min_size=1, max_size=4))
    glue = draw(st.sampled_from([" ", "; ", "\n", " \x1b[31m"]))
    return glue.join(text for text, _ in chosen), [secret for _, secrets in chosen for secret in secrets]


def with_text_everywhere(text: str) -> Diagnosis:
    """The fullest fake with `text` in every place that can hold text of a log."""
    base = fakes.several_ranks()
    quote = fakes.quote(5, text, "/home/zqsourceowner/exp/train.log")
    incident = fakes.backward_incident()
    incident = dataclasses.replace(
        incident,
        failure=dataclasses.replace(incident.failure, quote=quote, detail={"pid": text}, stream=text),
        phase=dataclasses.replace(
            incident.phase, why=text, quote=quote, frame=Frame(text, 3, text, text, text, Position(0, 1))
        ),
        copies=(dataclasses.replace(incident.failure, quote=quote),),
        why_status=text,
    )
    findings = tuple(
        dataclasses.replace(one, says=text, name=text, evidence=(quote, fakes.quote(6, text)))
        for one in base.findings
    )
    step = Step("code", text, text, text, None, ((text, text),))
    return dataclasses.replace(
        base,
        summary=text,
        incident=incident,
        incidents=(incident, *base.incidents),
        findings=findings,
        ruled_out=(RuledOut("fragmentation", text),),
        ranks=dataclasses.replace(base.ranks, how=text, consequences={0: text}, notes=(text,)),
        advice=dataclasses.replace(fakes.ADVICE, first=step, then=(step,), avoid=(text,), collect=(step,)),
        job=(Fact("model", text, Position(0, 0), quote),),
        other_errors=(quote,),
        notes=(text,),
        evidence=dataclasses.replace(
            base.evidence,
            documents=(fakes.document("/home/zqsourceowner/exp/train.log", 9, notes=(text,)),),
            notes=(text,),
        ),
    )


@settings(max_examples=40, deadline=None)
@given(planted())
def test_no_planted_secret_survives(case):
    text, secrets = case
    diagnosis = with_text_everywhere(text)
    for name, render in RENDERERS.items():
        output = render(diagnosis, OPTIONS)
        forms = (output, unquote(output), re.sub(r"\s+[|]?\s*", "", output), output.replace("\u200b", ""))
        for secret in [*secrets, "zqsourceowner"]:
            assert not any(secret in form for form in forms), (name, secret)


@pytest.mark.parametrize("name", sorted(RENDERERS))
def test_without_redaction_the_texts_are_there(name):
    output = RENDERERS[name](with_text_everywhere("see zqbeacon here"), ReportOptions())
    assert "zqbeacon" in output


@pytest.mark.parametrize("padding", ["x", "word ", "hf_Zq7aaaaaaaaaaaa ", "a/"])
@pytest.mark.parametrize("name", sorted(RENDERERS))
def test_secrets_in_huge_texts(name, padding):
    key = "hf_Zq7secretsecret"
    for start in (63_990, 7_990, 300_000):
        text = padding * (start // len(padding)) + f" {key} " + padding * 1000
        output = RENDERERS[name](with_text_everywhere(text), OPTIONS)
        assert "Zq7" not in re.sub(r"[\s|]", "", output)
