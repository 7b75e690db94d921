"""The forms of a doctor's answer: their order, their widths, and what is in none of them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from oomph.diagnose.machine.model import Checkup, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote
from oomph.report.doctor.json import read_schema, render_json, schema_text
from oomph.report.doctor.markdown import render_markdown
from oomph.report.doctor.sarif import render_sarif
from oomph.report.doctor.text import render_text
from oomph.report.doctor.words import headline
from oomph.report.options import ReportOptions
from tests.report.doctor.made import checkup, environment, finding

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed
DOCS = Path(__file__).parents[3] / "docs" / "schema"
WARNING = finding("ENV503", Severity.WARNING, Certainty.LIKELY, paste="", wrong="", subject="")
NOTE = finding("ENV201", Severity.NOTE)
RENDERERS: dict[str, Any] = {
    "text": render_text,
    "json": render_json,
    "markdown": render_markdown,
    "sarif": render_sarif,
}


def test_text():
    assert render_text(checkup(finding(), WARNING), ReportOptions()) == (
        "1 error and 1 warning, first ENV101 driver-too-old-for-the-cuda-build (driver)\n"
        "The machine (gpu07.cluster.example.org): 2 x Tesla T4 (15.00 GiB), driver\n"
        "470.82.01, PyTorch 2.3.1 (CUDA 12.1).\n"
        "\n"
        "ENV101 error: driver-too-old-for-the-cuda-build (driver)\n"
        "  The driver 470.82.01 does not run CUDA 12.1 builds: they need at least\n"
        "  525.60.13.\n"
        "  Effect: Every CUDA call fails: torch.cuda.is_available() is False.\n"
        "  First:  Install the build for CUDA 11.8, which this driver runs.\n"
        "      pip install torch --index-url https://download.pytorch.org/whl/cu118\n"
        "  Not:    Installing another CUDA toolkit: PyTorch brings its own.\n"
        "  Seen:   nvidia-smi.txt:3: | NVIDIA-SMI 470.82.01 Driver Version: 470.82.01\n"
        "          CUDA Version: 11.4 |\n"
        "  Seen:   /proc/meminfo: MemTotal: 24684084 kB\n"
        "\n"
        "ENV503 warning, likely: driver-too-old-for-the-cuda-build\n"
        "  The driver 470.82.01 does not run CUDA 12.1 builds: they need at least\n"
        "  525.60.13.\n"
        "  Effect: Every CUDA call fails: torch.cuda.is_available() is False.\n"
        "  First:  Install the build for CUDA 11.8, which this driver runs.\n"
        "  Seen:   nvidia-smi.txt:3: | NVIDIA-SMI 470.82.01 Driver Version: 470.82.01\n"
        "          CUDA Version: 11.4 |\n"
        "  Seen:   /proc/meminfo: MemTotal: 24684084 kB\n"
        "\n"
        "Notes\n"
        "  - Two drivers are told.\n"
        "\n"
        "Could not tell\n"
        "  ENV107, ENV205  no list of packages: pip list tells it\n"
        "  ENV204          no kernel log: dmesg tells it\n"
        "  GPUs            there is no nvidia-smi on the path\n"
        "\n"
        "In order: ENV106 (--all says why).\n"
        "\n"
        "Read: nvidia-smi.txt (nvidia-smi), env.txt (environment variables).\n"
        "Not read: train.py: it is source code: --script looks at that\n"
    )


def test_all_of_it():
    text = render_text(checkup(finding()), ReportOptions(), everything=True)
    assert "In order\n  ENV106  cuDNN 8.9.2.26 is what torch pins\n" in text
    assert "  Seen:   c.txt:9: third\n" in text
    assert "  vcpus           no /sys\n" in text


@pytest.mark.parametrize(
    ("findings", "more", "words"),
    [
        ((), {}, "Nothing wrong was found: 1 check in order, 3 checks could not be made"),
        ((NOTE,), {}, "Nothing wrong was found: 1 check in order, 3 checks could not be made"),
        (
            (),
            {"environment": environment(live=True)},
            "Nothing wrong was found: 1 check in order, 3 checks could not be made; no GPU could be read",
        ),
        ((), {"clear": ()}, "Nothing could be told: 3 checks had too little to go on"),
        ((), {"clear": (), "untold": ()}, "Nothing was checked: what was read has no subject of a check"),
        (
            (finding(), finding(), WARNING),
            {},
            "2 errors and 1 warning, first ENV101 driver-too-old-for-the-cuda-build (driver)",
        ),
        ((WARNING,), {}, "1 warning: ENV503 driver-too-old-for-the-cuda-build"),
    ],
)
def test_headlines(findings, more, words):
    found = checkup(*findings, **more)
    assert headline(found) == words
    document = json.loads(render_json(found, ReportOptions()))
    jsonschema.validate(document, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert (document["summary"], document["exit_code"]) == (words, found.exit_code)


@pytest.mark.parametrize("width", [40, 61, 80, 100])
def test_no_line_is_too_long_but_what_is_to_be_copied(width):
    text = render_text(checkup(finding(), NOTE), ReportOptions(width=width), everything=True)
    assert [
        line for line in text.splitlines() if len(line) > width and not line.startswith("      pip")
    ] == []


def test_a_folder_that_all_files_share_is_said_once():
    sources = (("cases/node 7/smi.txt", "nvidia-smi"), ("cases/node 7/deep/env.txt", "environment variables"))
    found = checkup(
        finding(evidence=(Quote("cases/node 7/smi.txt", 3, "a"), Quote("elsewhere.txt", 1, "b"))),
        environment=environment(sources=sources, passed_over=(("cases/node 7/x.png", "it is a picture"),)),
    )
    text = render_text(found, ReportOptions())
    assert "  Seen:   smi.txt:3: a\n  Seen:   elsewhere.txt:1: b\n" in text
    assert (
        "Read in cases/node 7/: smi.txt (nvidia-smi), deep/env.txt (environment\nvariables).\nNot read: x.png: "
        in text
    )
    # JSON and SARIF keep the names as they are.
    assert "cases/node 7/smi.txt" in render_json(found, ReportOptions())
    apart = environment(
        sources=(("a/smi.txt", "nvidia-smi"), ("b/env.txt", "environment variables")), passed_over=()
    )
    assert "Read: a/smi.txt (nvidia-smi), b/env.txt" in render_text(
        checkup(environment=apart), ReportOptions()
    )
    alone = environment(sources=(("/a/smi.txt", "nvidia-smi"),), passed_over=())
    assert "Read: /a/smi.txt (nvidia-smi)." in render_text(checkup(environment=alone), ReportOptions())


def test_colour():
    text = render_text(checkup(finding(), WARNING, NOTE), ReportOptions(colour=True))
    assert "\x1b[1;31mENV101 error: driver-too-old-for-the-cuda-build (driver)\x1b[0m" in text
    assert "\x1b[33mENV503 warning, likely" in text
    assert "\x1b" not in render_text(checkup(finding()), ReportOptions())


def test_json():
    document = json.loads(render_json(checkup(finding(), WARNING, NOTE), ReportOptions()))
    jsonschema.validate(document, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert (document["errors"], document["warnings"], document["notices"]) == (1, 1, 1)
    first = document["findings"][0]
    assert first["numbers"] == {"wanted_bytes": 3221225472}
    assert first["evidence"][0] == {
        "source": "nvidia-smi.txt",
        "line": 3,
        "text": "| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |",
    }
    assert (first["severity"], first["certainty"], first["safe_fix"]) == ("error", "certain", False)
    assert document["missing"] == {"cards": "there is no nvidia-smi on the path", "vcpus": "no /sys"}
    assert document["passed_over"][0]["source"] == "train.py"


def test_the_published_schema_is_that_of_the_types():
    message = (
        "Otherwise: python -c \"from oomph.report.doctor.json import schema_text; print(schema_text(), end='')\" "
        "> src/oomph/report/schema/doctor.schema.json, and copy it to docs/schema/"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(read_schema()))
    assert schema_text() == read_schema(), message
    assert (DOCS / "doctor.schema.json").read_text(encoding="utf-8") == read_schema(), message


def test_sarif():
    from oomph.cli.codes import load_checks

    script = finding("SCR105", evidence=(Quote("src/train.py", 41, "total += loss"),), subject="total")
    document = json.loads(render_sarif(checkup(script, WARNING), ReportOptions(), load_checks()))
    (run,) = document["runs"]
    first, second = run["results"]
    assert (first["ruleId"], first["level"], second["level"]) == ("SCR105", "error", "warning")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/train.py"
    assert place["region"]["startLine"] == 41
    assert run["tool"]["driver"]["rules"][0]["id"] == "SCR105"
    said = [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    assert "ENV204 could not be told: no kernel log: dmesg tells it" in said


def test_markdown():
    page = render_markdown(checkup(finding(paste="export A=1\nexport B=2")), ReportOptions())
    assert page.startswith("### 1 error: ENV101 driver-too-old-for-the-cuda-build (driver)\n")
    assert "\n```\nexport A=1\nexport B=2\n```\n" in page
    assert "| ENV204 | xid-events | no kernel log: dmesg tells it |" in page


@pytest.mark.parametrize("name", RENDERERS)
def test_a_machines_facts_stay_where_no_check_names_them(name):
    text = RENDERERS[name](checkup(finding()), ReportOptions())
    assert "hf_Never" not in text
    assert "HF_TOKEN" not in text


@pytest.mark.parametrize("name", RENDERERS)
@pytest.mark.parametrize("redact", [False, True])
def test_secrets_in_quotes_are_never_shown(name, redact):
    line = (
        "HF_TOKEN=hf_AbCdEfGh12345678 WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567 NCCL_DEBUG=INFO"
    )
    found = checkup(finding(evidence=(Quote("job.sh", 2, line),), says=f"Line: {line}"))
    text = RENDERERS[name](found, ReportOptions(redact=redact))
    assert "hf_Ab" not in text
    assert "0123456789abcdef" not in text
    assert "NCCL" in text


@pytest.mark.parametrize("name", RENDERERS)
def test_redaction(name):
    quote = Quote(
        "/home/grace/logs/smi.txt", 2, "LD_LIBRARY_PATH=/home/grace/cuda/compat:/usr/lib  MASTER_ADDR=gpu07"
    )
    found = checkup(
        finding(evidence=(quote,)),
        environment=environment(sources=(("/home/grace/logs/smi.txt", "nvidia-smi"),)),
    )
    text = RENDERERS[name](found, ReportOptions(redact=True))
    for private in ("grace", "gpu07", "cluster.example"):
        assert private not in text
    assert "ENV101" in text
    assert "470.82.01" in text
    assert "grace" in RENDERERS[name](found, ReportOptions())


@pytest.mark.parametrize("name", RENDERERS)
def test_hostile_text_steers_nothing(name):
    bad = "\x1b[31m::error::x\n::set-env y=1::\r\x00 \ud800 ##[group] | `a` </details> [l](http://evil)"
    found = Checkup(
        environment=Environment(sources=((bad, bad),), passed_over=((bad, bad),), missing={"cards": bad}),
        findings=(
            finding(says=bad, does=bad, fix=bad, paste=bad, subject=bad, wrong=bad, evidence=(Quote(bad, 1, bad),)),
        ),
        notes=(bad,),
    )  # fmt: skip
    text = RENDERERS[name](found, ReportOptions())
    assert "\x1b" not in text
    assert "\x00" not in text
    text.encode("utf-8")
    if name in ("text", "markdown"):
        assert not any(line.strip().startswith("::") for line in text.splitlines())
        assert "##[" not in text
    else:
        json.loads(text)
