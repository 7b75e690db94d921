"""`oomph doctor`: its command line, and the real command on this machine."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from oomph import api_doctor
from oomph.cli.doctor import command as doctor_command
from oomph.cli.variadic import repeated
from oomph.diagnose.machine.model import Severity
from oomph.errors import InputError
from oomph.report.doctor.json import read_schema
from tests.report.doctor.made import checkup, finding

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed
NOTE = finding("ENV201", Severity.NOTE)


class Doctor:
    """Stands in for `oomph.api_doctor.doctor`."""

    def __init__(self):
        self.answer: Any = checkup()
        self.asked: list[Any] = []

    def __call__(self, paths, **options):
        self.asked.append((tuple(paths), options))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def doctor(monkeypatch):
    fake = Doctor()
    monkeypatch.setattr(api_doctor, "doctor", fake)
    return fake


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("--from a b --script c", "--from a --from b --script c"),
        ("x --from a - b", "x --from a --from - --from b"),
        ("--from=a b", "--from=a --from b"),
        ("--script a --all b", "--script a --all b"),
        ("--from a -- b", "--from a -- b"),
        ("--job m j.toml --pid 3", "--job m --job j.toml --pid 3"),
        ("--select ENV1 a b", "--select ENV1 a b"),
        ("", ""),
    ],
)
def test_options_that_take_several(args, expected):
    assert repeated(args.split(), ("--from", "--script", "--job")) == expected.split()


def test_what_is_asked(run, doctor):
    result = run(
        "doctor", "a.txt", "--from", "b.txt", "c", "--script", "t.py", "u.py", "--select", "env1,SCR"
    )
    assert result.exit_code == 0
    ((paths, options),) = doctor.asked
    assert paths == ("b.txt", "c", "a.txt")
    assert options["scripts"] == ("t.py", "u.py")
    assert set(options["select"]) >= {"ENV101", "ENV103"}
    assert all(code.startswith(("ENV1", "SCR")) for code in options["select"])
    assert options["job"] is None


def test_this_machine(run, doctor):
    run("doctor", "--python", "/venv/bin/python", "--pid", "42", "--ask-cloud", "--job", "llama-3.1-8b")
    ((paths, options),) = doctor.asked
    assert (paths, options["python"], options["pid"], options["ask_cloud"]) == (
        (),
        "/venv/bin/python",
        42,
        True,
    )
    assert (options["job"], options["here"]) == (("llama-3.1-8b",), None)
    run("doctor", "--script", "t.py", "--here", "--pid", "42")
    assert doctor.asked[-1][1]["here"] is True


@pytest.mark.parametrize(
    ("findings", "args", "code"),
    [
        ((), (), 0),
        ((NOTE,), (), 0),
        ((NOTE, finding("ENV503", Severity.WARNING)), (), 1),
        ((finding(),), (), 1),
        ((finding(),), ("--exit-zero",), 0),
        ((), ("--strict",), 1),
    ],
)
def test_exit_codes(run, doctor, findings, args, code):
    doctor.answer = checkup(*findings)
    assert run("doctor", *args).exit_code == code
    assert json.loads(run("doctor", "--format", "json").stdout)["exit_code"] == checkup(*findings).exit_code


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--from", ""), "a PATH is empty"),
        (("--here",), "--here goes with --script"),
        (("a", "--here", "--script", "t.py"), "leave one out"),
        (("a", "--pid", "3"), "--pid asks this machine"),
        (("--script", "t.py", "--ask-cloud"), "--ask-cloud asks this machine"),
        (("--select", "OOM2"), "no rule's code starts with 'OOM2'"),
        (("--select", "ENV9"), "no rule's code starts with 'ENV9'"),
        (("--pid", "0"), "0 is not in the range"),
        (("--format", "yaml"), "'yaml' is not one of"),
        (("-o", "no/such/folder/x.txt"), "does not exist"),
    ],
)
def test_usage_errors(run, doctor, args, said):
    result = run("doctor", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert doctor.asked == []


def test_an_output_is_none_of_the_inputs(run, doctor, tmp_path):
    (tmp_path / "smi.txt").write_text("x")
    assert "is one of the inputs" in run("doctor", "smi.txt", "-o", "smi.txt").stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("smi.txt: no such file"), 2, "oomph: smi.txt: no such file\n"),
        (KeyboardInterrupt(), 130, "oomph: interrupted\n"),
        (ZeroDivisionError(), 2, "oomph: internal error, ZeroDivisionError"),
    ],
)
def test_every_way_to_fail_is_a_sentence(run, doctor, error, code, said):
    doctor.answer = error
    result = run("doctor", "smi.txt")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(said)


@pytest.mark.parametrize("name", ["text", "json", "markdown", "sarif"])
def test_formats_and_files(run, doctor, tmp_path, name):
    doctor.answer = checkup(finding())
    shown = run("doctor", "--format", name)
    assert shown.exit_code == 1
    written = run("doctor", "--format", name, "-o", "out")
    assert (written.stdout, written.stderr) == ("", "wrote out\n")
    assert (tmp_path / "out").read_text(encoding="utf-8") == shown.stdout


def test_settings_of_a_project_are_for_all_commands(run, doctor, tmp_path):
    (tmp_path / "oomph.toml").write_text('ignore = ["OOM2", "ENV2"]\nformat = "github"\n')
    result = run("doctor")
    assert result.exit_code == 0
    ignored = doctor.asked[-1][1]["ignore"]
    assert all(code.startswith("ENV2") for code in ignored)
    (tmp_path / "oomph.toml").write_text('ignore = ["XYZ"]\n')
    assert "oomph.toml: ignore: no rule's code starts with 'XYZ'" in run("doctor").stderr


def test_help_names_every_option():
    names = {option for parameter in doctor_command.params for option in parameter.opts}
    assert {
        "--from",
        "--script",
        "--job",
        "--python",
        "--pid",
        "--ask-cloud",
        "--select",
        "--ignore",
    } <= names


def oomph(*args, cwd, **variables):
    environment = {
        name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")
    }
    return subprocess.run(
        [sys.executable, "-m", "oomph", "doctor", *args],
        check=False,
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env=environment | {"PYTHONIOENCODING": "utf-8"} | variables,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def test_the_real_command_on_this_machine(tmp_path):
    """What it finds depends on the machine; that it says so without an error does not."""
    secret = {"HF_TOKEN": "hf_NeverShown12345678"}
    done = oomph("--format", "json", cwd=tmp_path, NCCL_DEBUG="INFO", **secret)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert done.returncode == document["exit_code"] == int(document["errors"] + document["warnings"] > 0)
    assert document["live"] is True
    assert "hf_NeverShown" not in done.stdout
    assert all(one["why"] for one in (*document["clear"], *document["could_not_tell"]))
    assert all(document["missing"].values())


def test_a_machine_without_gpus_has_no_false_alarm(tmp_path):
    """With no driver to ask and no odd variable, nothing can be wrong with a GPU."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from oomph.evidence.environment.live import this_environment\n"
        "from oomph.diagnose.machine.engine import check_up\n"
        "from oomph.diagnose.machine.model import Asked, Severity\n"
        "found = check_up(Asked(this_environment(root=Path(sys.argv[1]))), ignore=['ENV5'])\n"
        "print([one for one in found.findings if one.problem.severity is not Severity.NOTE])\n"
    )
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=120,
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("--python", "/nowhere/python"),
            "oomph: /nowhere/python cannot be started: No such file or directory\n",
        ),
        (("--pid", "4194305"), "oomph: there is no process 4194305 here\n"),
        (("no-such-file.txt",), "no-such-file.txt"),
        (("--script", "no-such-script.py"), "no-such-script.py"),
        (("--job", "no-such-job.toml"), "no-such-job.toml"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_not_there_is_one_sentence(run, args, said):
    """4194304 is the largest process number that Linux gives (PID_MAX_LIMIT)."""
    result = run("doctor", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_machine_from_files_and_from_standard_input(run, tmp_path):
    (tmp_path / "env.txt").write_text("NCCL_SOCKET_IFNAME=nvlink0\nPATH=/usr/bin\nHOME=/root\n")
    found = run("doctor", "--from", "env.txt", "--select", "ENV403")
    assert found.exit_code == 1
    assert "ENV403 error" in found.stdout
    piped = run("doctor", "-", "--select", "ENV403", stdin=(tmp_path / "env.txt").read_text())
    assert piped.exit_code == 1
    assert "ENV403 error" in piped.stdout


def test_a_script_alone_says_nothing_of_a_machine(run, tmp_path):
    (tmp_path / "train.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    found = run("doctor", "--script", "train.py", "--format", "json")
    document = json.loads(found.stdout)
    assert {one["code"] for one in document["findings"]} == {"SCR104"}
    assert document["findings"][0]["evidence"][0]["line"] == 2
    assert (document["live"], document["machine"]) == (False, "")
    assert all(one["code"].startswith("SCR") for one in document["could_not_tell"])
