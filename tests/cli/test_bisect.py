"""`oomph bisect`: the command line, what it refuses, and how its answer looks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from oomph.report.bisect.json import read_schema, render_json, schema_text
from oomph.report.bisect.text import render_text
from oomph.report.options import ReportOptions
from oomph.trial.answer import answer_of
from oomph.trial.command import Template
from oomph.trial.model import PhasePeak, TrialOutcome, TrialResult
from oomph.trial.params import parse_params
from oomph.trial.protocol import isolate

JOB = str(Path(__file__).parents[1] / "trial" / "scripts" / "job.py")
DOCS = Path(__file__).parents[2] / "docs" / "schema"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Name the command that fails"),
        (("--", "t.py"), "--param batch=8:1"),
        (("--param", "batch=8:1", "--", "t.py"), "{batch}"),
        (("--param", "batch=8:1", "--", "t.py", "{batch}", "{seq}"), "--param seq=VALUES"),
        (("--param", "batch=8:1", "--timeout", "soon", "--", "t.py", "{batch}"), "--timeout"),
        (("--param", "batch=8:1", "--memory", "much", "--", "t.py", "{batch}"), "--memory"),
        (("--param", "batch=8:1", "--headroom", "1GiB", "--", "t.py", "{batch}"), "--headroom"),
        (("--param", "batch=8:1", "--until", "lunch", "--", "t.py", "{batch}"), "--until"),
        (("--param", "batch=8:1", "--env", "X", "--", "t.py", "{batch}"), "--env"),
        (("--param", "batch=8:1", "--engine", "trace", "--", "t.py", "{batch}"), "--gpu NAME or --capacity"),
        (
            ("--param", "batch=8:1", "--engine", "trace", "--gpu", "foo", "--", "t.py", "{batch}"),
            "by the name foo",
        ),
        (
            ("--param", "batch=8:1", "--engine", "trace", "--capacity", "x", "--", "t.py", "{batch}"),
            "--capacity",
        ),
        (("--param", "batch=8:1", "--capacity", "1GiB", "--", "t.py", "{batch}"), "--engine trace"),
        (("--param", "batch=8:1", "--engine-option", "x", "--", "t.py", "{batch}"), "KEY=VALUE"),
        (("--param", "batch=8:1", "--engine-option", "colour=red", "--", "true", "{batch}"), "does not take"),
        (("--param", "batch=8:1", "--name", "../x", "--", "t.py", "{batch}"), "--name"),
        (("--param", "c.yaml:batch=8:1", "--", "t.py", "c.yaml"), "cannot be read"),
        (("--param", "batch=8:1", "--", "no-such-program", "{batch}"), "no-such-program: no program"),
        (("--param", "batch=8:1", "--gpus", "2", "--", "t.py", "{batch}"), "--engine slurm and ray"),
        (("--param", "batch=8:1", "--", "t.py", "{batch}", "\udcff"), "not UTF-8"),
    ],
)
def test_refusals_say_what_to_do(run, arguments, says):
    done = run("bisect", *arguments)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_no_disk_has_to_stay_free(run, tmp_path):
    """0 is none, as with --timeout: the command is begun, and does not fail."""
    done = run(
        "bisect", "--param", "batch=8:1", "--free-disk", "0", "--timeout", "0", "--", "true", "{batch}"
    )
    assert done.exit_code == 0, done.output
    assert "It does not fail" in done.stdout


def test_a_disk_that_takes_nothing(run, tmp_path):
    (tmp_path / "oomph-bisect").write_text("in the way")
    done = run("bisect", "--param", "batch=8:1", "--", "true", "{batch}")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
    assert "make room" not in done.stderr, "the disk is not full"
    assert "the same command goes on" in done.stderr


def test_help(run):
    done = run("bisect", "--help")
    assert done.exit_code == 0
    assert "--param NAME=VALUES" in done.output


@pytest.mark.skipif(sys.platform == "win32", reason="oomph record -- CMD needs POSIX")
def test_from_the_command_line_to_the_answer(run, tmp_path):
    arguments = ("--param", "batch=5,3", "--", sys.executable, JOB, "--batch", "{batch}")
    done = run("bisect", *arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("The cause is batch\nbatch alone decides: batch=3 fits.")
    assert "trial 1: batch=5: out of memory in backward" in done.stderr
    assert "Between batch=3 and 5 nothing was tried" in done.stdout
    again = run("bisect", "--format", "json", "-q", "-o", "answer.json", *arguments)
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "")
    answer = json.loads((tmp_path / "answer.json").read_text())
    jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert [trial["setting"]["batch"] for trial in answer["trials"]] == [5, 3]
    assert (tmp_path / "started").read_text() == "5\n3\n", "what was run is not run again"
    assert any("Trials 1, 2 had been run before" in note for note in answer["notes"])


def test_what_has_changed_is_another_search(tmp_path):
    from oomph.trial.same import files_of, variables_of

    (tmp_path / "train.py").write_text("one")
    (tmp_path / "log.txt").write_text("x")
    command = ("python", "train.py", "--config=train.py", "--log", "log.txt", "none.py")
    before = files_of(command, tmp_path)
    assert list(before) == ["train.py"]
    (tmp_path / "train.py").write_text("two")
    assert files_of(command, tmp_path) != before
    shell = {"PYTORCH_CUDA_ALLOC_CONF": "a", "CUDA_VISIBLE_DEVICES": "1", "HF_TOKEN": "x", "HOME": "/"}
    assert variables_of(shell) == {"CUDA_VISIBLE_DEVICES": "1", "PYTORCH_CUDA_ALLOC_CONF": "a"}


def searched(outcome, *params, command=("python", "train.py", "{batch}", "{seq}")):
    template = Template(command, parse_params(params))
    search = isolate(template.variables)
    trials = []
    ask = next(search)
    while True:
        trials.append(outcome(len(trials) + 1, dict(ask.setting)))
        try:
            ask = search.send(trials[-1])
        except StopIteration as end:
            return answer_of(
                template, end.value, trials, engine="local", folder=Path("oomph-bisect/x"), headroom=0.1
            )


def sized(number, setting):
    """100 MiB and 10 for each unit of batch x seq/1024; 200 are there."""
    size = 100 * MIB + 10 * MIB * setting["batch"] * setting["seq"] // 1024
    fits = size <= 200 * MIB
    outcome = TrialOutcome.FITS if fits else TrialOutcome.OOM
    peak = PhasePeak("backward", size, size, 0, failed=not fits)
    return TrialResult(
        number, setting, outcome, "memory ran out", phase="" if fits else "backward", step=2 if fits else 0,
        capacity_bytes=200 * MIB, peaks=(peak,), seconds=3.0, directory=f"oomph-bisect/x/trial-{number:03d}",
        known_by="records",
    )  # fmt: skip


def test_the_text_says_what_fits_what_it_costs_and_what_was_not_tested():
    """Batch 8 x 8 KiB tokens need 740; at 1 x 8 they need 180 of 200: the batch alone, and 1 is its limit (2: 260)."""
    answer = searched(sized, "batch=8,4,2,1", "seq=8192:512")
    text = render_text(answer, ReportOptions(width=80))
    assert text.startswith("The cause is batch\n")
    assert "  batch  1 with seq=8192; 2 fails\n" in text
    assert "  seq    8192 (as given)\n" in text
    assert "seq stayed at 8192 in every trial" in text
    assert "nothing that was tried leaves" not in text, "180 of 200 leave 10 %"
    assert "oomph record --phases -- python train.py 1 8192" in text
    assert max(len(line) for line in text.splitlines() if "oomph record" not in line) <= 80


def test_colour_only_where_asked():
    answer = searched(sized, "batch=8,4,2,1", "seq=8192:512")
    assert "\x1b[" not in render_text(answer, ReportOptions())
    assert "\x1b[" in render_text(answer, ReportOptions(colour=True))


@pytest.mark.parametrize("outcome", list(TrialOutcome))
def test_every_end_has_a_text_and_a_document(outcome):
    def all_alike(number, setting):
        return TrialResult(number, setting, outcome, "so it ended", phase="forward")

    answer = searched(all_alike, "batch=8:1", "seq=8192:512")
    assert answer.exit_code == (0 if outcome is TrialOutcome.FITS else 1)
    assert "so it ended" in render_text(answer, ReportOptions(width=200)) or outcome is TrialOutcome.OOM
    jsonschema.validate(
        json.loads(render_json(answer)), json.loads(read_schema()), jsonschema.Draft202012Validator
    )


def test_the_published_schema_is_that_of_the_types():
    message = (
        "run: python -c 'from oomph.report.bisect.json import schema_text; print(schema_text(), end=\"\")' "
        "> src/oomph/report/schema/bisect.schema.json, and copy it to docs/schema"
    )
    assert json.loads(read_schema()) == json.loads(schema_text()), message
    assert (DOCS / "bisect.schema.json").read_text(encoding="utf-8") == read_schema(), message


def test_neighbours_on_the_card_are_told():
    def crowded(number, setting):
        one = sized(number, setting)
        return TrialResult(
            number, setting, one.outcome, one.why, phase=one.phase, step=one.step, capacity_bytes=one.capacity_bytes,
            peaks=one.peaks, known_by="records", other_processes_bytes=3 << 30,
        )  # fmt: skip

    answer = searched(crowded, "batch=8,4,2,1", "seq=8192:512")
    assert any("Other processes held 3.00 GiB" in note for note in answer.notes)
