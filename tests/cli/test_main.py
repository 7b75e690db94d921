from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import oomph
from oomph.cli.main import COMMANDS
from oomph.errors import InputError
from tests.cli.fakes import FakeEngine


def test_version(run):
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"oomph {oomph.__version__}\n")


def test_help_lists_every_command_and_no_other(run):
    result = run("--help")
    assert result.exit_code == 0
    listed = result.stdout.partition("Commands:")[2].splitlines()
    assert [line.split()[0] for line in listed if line.strip()] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_for_itself_and_each_option(run, command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: oomph {command}")
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_an_unknown_command_is_a_usage_error(run):
    result = run("exlpain")
    assert result.exit_code == 2
    assert "exlpain" in result.stderr
    assert result.stdout == ""


def test_an_error_made_for_the_user_is_one_sentence(run, engine):
    engine.answer = InputError("train.log: no such file; check the path")
    result = run("explain", "train.log")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "oomph: train.log: no such file; check the path\n"


def test_an_error_of_the_system_names_the_file(run, engine):
    engine.answer = PermissionError(13, "Permission denied", "train.log")
    result = run("explain", "train.log")
    assert result.exit_code == 2
    assert result.stderr == "oomph: train.log: Permission denied\n"


def test_a_bug_asks_for_a_report_and_keeps_its_traceback(run, engine):
    engine.answer = ZeroDivisionError("secret of the log")
    result = run("explain", "train.log")
    assert result.exit_code == 2
    assert "ZeroDivisionError" in result.stderr
    assert "report" in result.stderr
    assert "-v" in result.stderr
    assert "Traceback" not in result.stderr
    assert "secret of the log" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_verbose_shows_the_traceback_of_a_bug(run, engine):
    engine.answer = ZeroDivisionError("here")
    result = run("explain", "-v", "train.log")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "ZeroDivisionError: here" in result.stderr


def test_an_interrupt_is_130(run, engine):
    engine.answer = KeyboardInterrupt()
    result = run("explain", "train.log")
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr


def test_a_command_without_verbose_has_no_hint_to_it(run, engine, monkeypatch):
    def broken() -> tuple[()]:
        raise ZeroDivisionError

    monkeypatch.setattr("oomph.cli.codes.load_all", broken)
    result = run("rules")
    assert result.exit_code == 2
    assert "ZeroDivisionError" in result.stderr
    assert "-v" not in result.stderr


def test_python_m_oomph(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "oomph", "--version"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"oomph {oomph.__version__}\n", "")


def test_a_reader_that_stops_reading_is_no_error(tmp_path):
    """As `oomph completion bash | head -c1`, with a reader that closes before anything is written."""
    code = "import sys; sys.stdin.read(1); from oomph.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "completion", "zsh"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"x")
    process.stdin.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_a_console_that_lacks_characters_prints_question_marks(tmp_path):
    code = "import sys; from oomph.cli.output import *; tolerate_any_text(sys.stdout); emit('caf\\xe9 \\u2588 \\udc80')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={"PYTHONIOENCODING": "cp437:strict"},
    )
    # cp437 has the accent (0x82) and the full block (0xDB), but no lone surrogate.
    assert (done.returncode, done.stdout.rstrip()) == (0, b"caf\x82 \xdb ?")


def test_the_fake_engine_is_asked_what_the_library_takes():
    from oomph.api import explain

    fake = inspect.signature(FakeEngine.explain).parameters
    assert [name for name in fake if name != "self"] == list(inspect.signature(explain).parameters)
