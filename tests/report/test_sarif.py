from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from oomph import __version__
from oomph.report.options import ReportOptions
from oomph.report.sarif import render_sarif, uri
from tests.report import fakes

RULE = SimpleNamespace(
    code="OOM201",
    name="activations-fill-the-card",
    means="What is kept for backward does not fit.",
    decisive_evidence="A forward or backward frame.",
    first_action="A smaller micro-batch.",
    verify="It runs.",
    wrong_advice=("empty_cache", "another allocator"),
)


def run(diagnosis, rules=(), options: ReportOptions | None = None):
    document = json.loads(render_sarif(diagnosis, options or ReportOptions(), rules))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    (only,) = document["runs"]
    return only


@pytest.mark.parametrize("name", sorted(fakes.ALL))
def test_required_properties(name):
    one = run(fakes.ALL[name]())
    driver = one["tool"]["driver"]
    assert driver["name"] == "oomph"
    assert driver["version"] == __version__
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert rule["name"].isalnum()
        assert rule["shortDescription"]["text"]
    for result in one["results"]:
        assert result["message"]["text"]
        assert result["level"] in ("error", "warning", "note")
        if "ruleId" in result:
            assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        for location in (*result["locations"], *result.get("relatedLocations", ())):
            physical = location["physicalLocation"]
            assert physical["artifactLocation"]["uri"]
            assert physical.get("region", {"startLine": 1})["startLine"] >= 1
    assert one["invocations"][0]["executionSuccessful"] is True
    assert one["invocations"][0]["exitCode"] == fakes.ALL[name]().exit_code


def test_levels_follow_certainty_and_outcome():
    assert [result["level"] for result in run(fakes.fatal())["results"]] == ["error", "warning"]
    assert [result["level"] for result in run(fakes.look_alike())["results"]] == ["note"]
    recovered = dataclasses.replace(fakes.recovered(), findings=(fakes.ACTIVATIONS,))
    assert [result["level"] for result in run(recovered)["results"]] == ["note"]
    assert run(fakes.no_oom())["results"] == []


def test_a_failure_that_nothing_explains_is_still_a_result():
    (result,) = run(fakes.doctored())["results"]
    assert result["level"] == "error"
    assert result["message"]["text"] == "CUDA out of memory in backward (checkpoint recompute) on GPU 0"


def test_quotes_are_the_locations():
    first = run(fakes.fatal())["results"][0]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "logs/train.log"
    assert place["region"]["startLine"] == 412
    assert place["region"]["snippet"]["text"] == fakes.BACKWARD
    assert [one["physicalLocation"]["region"]["startLine"] for one in first["relatedLocations"]] == [12]
    assert first["message"]["text"].endswith(
        "First change: Halve the micro-batch to 2 and double accumulation."
    )


@pytest.mark.parametrize("rules", [(RULE,), {"OOM201": RULE}])
def test_rules_bring_their_help(rules):
    driver = run(fakes.fatal(), rules)["tool"]["driver"]
    rule = driver["rules"][0]
    assert rule["name"] == "ActivationsFillTheCard"
    assert rule["fullDescription"]["text"] == RULE.means
    assert "What it means: What is kept for backward does not fit." in rule["help"]["text"]
    assert "**Tempting, and wrong**\n\nempty_cache\nanother allocator" in rule["help"]["markdown"]
    assert "help" not in driver["rules"][1]


def test_what_is_no_finding_is_a_notification():
    notes = run(fakes.no_oom())["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"] for note in notes] == [
        "rank1.log ends in the middle of a line.",
        "not of memory: rank0.log:990: RuntimeError: CUDA error: device-side assert triggered",
    ]


def test_a_log_cannot_put_a_link_into_a_message():
    finding = dataclasses.replace(fakes.ACTIVATIONS, says="see [here](https://x.example)")
    (result,) = run(dataclasses.replace(fakes.fatal(), findings=(finding,)))["results"]
    assert "](" not in result["message"]["text"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("logs/train.log", "logs/train.log"),
        ("my run/a%b#c.log", "my%20run/a%25b%23c.log"),
        ("/var/log/x.log", "file:///var/log/x.log"),
        (r"C:\runs\x.log", "file:///C:/runs/x.log"),
        (r"\\server\share\x.log", "file://server/share/x.log"),
        (r"runs\x.log", "runs/x.log"),
        ("-", "stdin"),
        ("日本.log", "%E6%97%A5%E6%9C%AC.log"),
    ],
)
def test_file_names_become_uris(source, expected):
    assert uri(source) == expected
