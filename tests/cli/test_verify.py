"""`oomph verify` on run directories."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from oomph.phases import Phase
from tests.diagnose.verify.runs import GIB, Rank, failure, write


@pytest.fixture
def good(tmp_path):
    return str(write(tmp_path / "good", [Rank(0), Rank(1)]))


@pytest.fixture
def bad(tmp_path):
    ranks = [
        Rank(0, steps=3, outcome="killed"),
        Rank(1, steps=3, outcome="oom", oom=failure(Phase.BACKWARD, 3, 70 * GIB)),
    ]
    return str(write(tmp_path / "bad", ranks))


def test_a_good_run(run, good):
    result = run("verify", good)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Verified: 6 checks passed\n")


def test_a_failed_run(run, bad):
    result = run("verify", bad)
    assert result.exit_code == 1
    assert "headroom" in result.stdout.splitlines()[0]
    assert "a request failed on rank 1 in backward of step 3" in " ".join(result.stdout.split())
    assert run("verify", bad, "--exit-zero").exit_code == 0


def test_limits_and_selection(run, good):
    result = run("verify", good, "--limit", "backward=41GiB", "--select", "limit,retries")
    assert result.exit_code == 1
    assert "limit[backward]" in result.stdout
    assert "headroom" not in result.stdout
    assert run("verify", good, "--limit", "backward=42GiB", "--ignore", "growth").exit_code == 0


def test_strict(run, tmp_path):
    killed = str(write(tmp_path / "killed", [Rank(outcome="killed")]))
    assert run("verify", killed).exit_code == 0
    assert run("verify", killed, "--strict").exit_code == 1


def test_json_and_junit(run, good, tmp_path):
    result = run("verify", good, "--format", "json", "--junit", "verify.xml")
    document = json.loads(result.stdout)
    assert (document["verdict"], document["passed"]) == ("passed", 6)
    assert result.stderr == "wrote verify.xml\n"
    tree = ET.parse(tmp_path / "verify.xml")  # noqa: S314 - our own
    assert tree.getroot().attrib["failures"] == "0"
    assert run("verify", good, "--format", "junit").stdout == (tmp_path / "verify.xml").read_text()


def test_a_file_of_checks(run, good, tmp_path):
    checks = tmp_path / "checks.toml"
    checks.write_text('headroom = "60GiB"\n')
    assert run("verify", good, "--checks", str(checks)).exit_code == 1
    assert run("verify", good, "--checks", str(checks), "--headroom", "1GiB").exit_code == 0  # flags win
    checks.write_text('[tool.oomph.verify]\nlimits = {peak = "1GiB"}\n')
    assert "limit[peak]" in run("verify", good, "--checks", str(checks)).stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.oomph.verify]\nheadroom = "79GiB"\n'),
        ("oomph.toml", '[verify]\nheadroom = "79GiB"\n'),
    ],
)
def test_the_projects_own_table(run, good, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert run("verify", good).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--headroom", "much"), "--headroom 'much'"),
        (("--limit", "backward"), "PHASE=SIZE"),
        (("--limit", "sideways=1GiB"), "a phase is"),
        (("--growth", "10%"), "--growth"),
        (("--select", "nothing"), "there is no check 'nothing'"),
        (("--checks", "none.toml"), "none.toml"),
        (("--junit", "nowhere/x.xml"), "does not exist"),
        (("--junit", "x.xml", "-o", "x.xml"), "two outputs"),
        (("--plan", "no-such-model"), "no-such-model"),
    ],
)
def test_what_is_refused(run, good, arguments, words):
    result = run("verify", good, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_of_checks_that_is_wrong(run, good, tmp_path):
    checks = tmp_path / "checks.toml"
    for text, words in (("headrom = 1", "unknown key 'headrom'"), ("= =", "not valid TOML")):
        checks.write_text(text)
        result = run("verify", good, "--checks", str(checks))
        assert result.exit_code == 2
        assert words in result.stderr


def test_what_is_no_run(run, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        result = run("verify", name)
        assert result.exit_code == 2
        assert name in result.stderr


def test_held_against_a_plan(run, tmp_path):
    """gpt2 in fp32 with batch 1 and 128 tokens allocates about 2.3 GiB in the optimizer step, not 35."""
    path = str(write(tmp_path / "run", [Rank()]))
    (tmp_path / "job.toml").write_text('[model]\nname = "gpt2"\n[batch]\nmicro = 1\nsequence = 128\n')
    result = run("verify", path, "--plan", "job.toml", "--select", "prediction")
    assert result.exit_code == 1
    assert "prediction[optimizer]" in result.stdout
    assert "predicted were" in " ".join(result.stdout.split())


def test_a_run_by_what_it_is_called(run, tmp_path):
    assert run("verify", "last").exit_code == 2
    write(tmp_path / "oomph-runs" / "20261130-sft", [Rank()])
    result = run("verify", "last")
    assert result.exit_code == 0, result.stderr
    assert run("verify", "20261130").stdout == result.stdout
    assert "did you mean" in run("verify", "20261130-stf").stderr
