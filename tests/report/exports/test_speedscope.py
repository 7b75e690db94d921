"""speedscope's file: its format, and bytes that add up."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from oomph import __version__
from oomph.report.exports import export
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, block, segment
from tests.report.exports import story

#: Written from speedscope's src/lib/file-format-spec.ts (0.6.0 and later): what of it a sampled profile uses.
INDEX = {"type": "integer", "minimum": 0}
FORMAT = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": {"type": "string"},
        "exporter": {"type": "string"},
        "activeProfileIndex": INDEX,
        "shared": {
            "type": "object",
            "required": ["frames"],
            "additionalProperties": False,
            "properties": {
                "frames": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {"type": "string", "minLength": 1},
                            "file": {"type": "string"},
                            "line": {"type": "integer", "minimum": 1},
                            "col": {"type": "integer", "minimum": 1},
                        },
                    },
                }
            },
        },
        "profiles": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
                "additionalProperties": False,
                "properties": {
                    "type": {"const": "sampled"},
                    "name": {"type": "string"},
                    "unit": {"const": "bytes"},
                    "startValue": {"type": "number"},
                    "endValue": {"type": "number"},
                    "samples": {"type": "array", "items": {"type": "array", "items": INDEX}},
                    "weights": {"type": "array", "items": {"type": "number"}},
                },
            },
        },
    },
}


def exported(tmp_path, analysis, **options):
    path = tmp_path / "alive.speedscope.json"
    export(path, analysis, **options)
    found = json.loads(path.read_bytes())
    jsonschema.validate(found, FORMAT)
    for profile in found["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
        assert all(index < len(found["shared"]["frames"]) for stack in profile["samples"] for index in stack)
    return found


def stacks(found, number=0):
    names = [frame["name"] for frame in found["shared"]["frames"]]
    profile = found["profiles"][number]
    return {
        tuple(names[index] for index in stack): weight
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True)
    }


def test_everything_alive_at_the_peak_outermost_frame_first(tmp_path):
    found = exported(tmp_path, story.analysis())
    assert stacks(found) == {("main", "forward"): 4 * MIB, ("main", "loss"): 6 * MIB}
    assert found["profiles"][0]["name"] == "everything: 10.00 MiB"
    assert found["name"] == "run.pickle, device 0: alive at peak allocated (event 2)"
    assert found["exporter"] == f"oomph@{__version__}"


def test_another_moment(tmp_path):
    assert stacks(exported(tmp_path, story.analysis(at="end"))) == {("main", "loss"): 6 * MIB}


def test_profiles_of_categories_add_up_to_everything(tmp_path):
    found = exported(tmp_path, story.analysis())
    whole, *parts = (sum(profile["weights"]) for profile in found["profiles"])
    assert whole == sum(parts) == 10 * MIB
    assert parts == sorted(parts, reverse=True)


def test_frames_are_shared_and_have_lines(tmp_path):
    frames = exported(tmp_path, story.analysis())["shared"]["frames"]
    assert {(frame["name"], frame["file"], frame["line"]) for frame in frames} == {
        (frame["name"], frame["filename"], frame["line"]) for frame in story.MODEL + story.LOSS
    }
    assert len(frames) == 4


def test_frames_that_say_nothing_and_lines_of_c_are_left_out(tmp_path):
    frames = [
        {"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
        {"name": "torch::CapturedTraceback::gather(bool, bool, bool)", "filename": "??", "line": 0},
        {"name": "at::empty", "filename": "empty.cpp", "line": 0},
        {"name": "_PyEval_EvalFrameDefault", "filename": "/src/Python/ceval.c", "line": 4952},
        {"name": "start_thread", "filename": "./nptl/pthread_create.c", "line": 442},
    ]
    blocks = [block(BASE, 20 * MIB, frames=frames)]
    content: dict[str, Any] = {"segments": [segment(blocks=blocks)], "device_traces": [[]]}
    found = exported(tmp_path, story.analysis(**content))
    assert found["shared"]["frames"] == [{"name": "at::empty", "file": "empty.cpp"}]


def test_a_stack_of_nothing_else_is_kept(tmp_path):
    frames = [{"name": "start_thread", "filename": "./nptl/pthread_create.c", "line": 442}]
    blocks = [block(BASE, 20 * MIB, frames=frames)]
    found = exported(tmp_path, story.analysis(segments=[segment(blocks=blocks)], device_traces=[[]]))
    assert stacks(found) == {("start_thread",): 20 * MIB}


def test_blocks_without_a_stack_are_shown(tmp_path):
    blocks = [block(BASE, 20 * MIB)]
    found = exported(tmp_path, story.analysis(segments=[segment(blocks=blocks)], device_traces=[[]]))
    assert stacks(found) == {("(no stack was recorded)",): 20 * MIB}


def test_nothing_alive(tmp_path):
    found = exported(tmp_path, story.analysis(segments=[], device_traces=[[]]))
    assert found["profiles"][0]["samples"] == []


@pytest.mark.parametrize("redact", [False, True])
def test_hostile_names(tmp_path, redact):
    found = exported(tmp_path, story.hostile(), redact=redact)
    assert found["profiles"][0]["endValue"] == 512 * len(story.HOSTILE)
    shown = [frame["name"] for frame in found["shared"]["frames"]]
    assert "two lines" in shown
    assert not any(ord(character) < 32 for name in shown for character in name)
    assert max(map(len, shown)) < 9_000


def test_redacted(tmp_path):
    found = exported(tmp_path, story.analysis("/home/jane/node-17.pickle"), redact=True)
    text = json.dumps(found)
    assert "jane" not in text
    assert "node-17" not in text
    assert stacks(found) == {("main", "forward"): 4 * MIB, ("main", "loss"): 6 * MIB}
    assert "model.py" in text
