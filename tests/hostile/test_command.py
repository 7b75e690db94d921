"""Named inputs through the real command: a clear sentence and exit code 2, or a true answer."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import zstandard

from oomph.api import explain
from oomph.errors import InputError
from tests.hostile.shapes import message, traceback

NO_OOM = "No out-of-memory failure found"
FAILURE = traceback(3, message(7)) + "\n"
#: A name that tries to write to the terminal, to start a line of its own, and to command GitHub.
EVIL_NAME = "a\x1b[31m\x1b]0;t\x07\n::error::x\u202e\x9b2J.log"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
POSIX = pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices as POSIX has them")


@pytest.fixture
def command(tmp_path):
    """Runs `oomph explain` in a process of its own, in tmp_path."""

    def run(*arguments: str, stdin: bytes | None = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "oomph", "explain", *arguments],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )

    return run


def refused(result: subprocess.CompletedProcess[bytes], *words: str) -> None:
    """Exit code 2, nothing on stdout, and one sentence that says what to do."""
    text = result.stderr.decode()
    assert (result.returncode, result.stdout) == (2, b"")
    assert text.startswith("oomph: ")
    assert text.count("\n") == 1
    assert text.rstrip().endswith(".")
    assert "internal error" not in text
    for word in words:
        assert word in text


def answered(result: subprocess.CompletedProcess[bytes], code: int) -> str:
    """The expected exit code, an answer on stdout and nothing on stderr."""
    assert (result.returncode, result.stderr) == (code, b"")
    return result.stdout.decode()


@pytest.mark.parametrize("data", [b"", b" \t\r\n" * 1000, b"\xff\xfe"])
def test_nothing_at_all(command, tmp_path, data):
    (tmp_path / "a.log").write_bytes(data)
    refused(command("a.log"), "a.log is empty")


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 4000,
        b"\x00" * 1_000_000,
        b"\x7fELF" + b"\x01\x02" * 5000,
        b"PK\x03\x04" + b"x" * 99,
    ],
    ids=["every byte", "NULs", "a program", "an archive"],
)
def test_binary_data(command, tmp_path, data):
    (tmp_path / "a.bin").write_bytes(data)
    refused(command("a.bin"), "a.bin is ")


@pytest.mark.parametrize(
    "data",
    [b"hello", b"hello\n", b"\xff\xfeh\x00i\x00", b"x" * 10_000_000, b"\rx" * 1_000_000],
    ids=["one line", "one line and its end", "UTF-16", "10 MB on one line", "a million carriage returns"],
)
def test_text_without_a_failure(command, tmp_path, data):
    (tmp_path / "a.log").write_bytes(data)
    assert answered(command("a.log"), 0).startswith(NO_OOM)


def test_a_failure_at_the_end_of_a_line_of_ten_megabytes(command, tmp_path):
    (tmp_path / "a.log").write_bytes(b"x " * 5_000_000 + message(7).encode())
    assert "asking for 8.07 MiB" in " ".join(answered(command("a.log"), 1).split())


def test_compressed_bombs(command, tmp_path):
    """300 MB in 300 kB and 100 MB in 10 kB: read in bounded memory, told truly."""
    with gzip.open(tmp_path / "a.gz", "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"step 1 loss 2\n" * 214_000)
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    with (tmp_path / "b.zst").open("wb") as file:
        for _ in range(100):
            file.write(compressor.compress(b"\x00" * 1_000_000))
        file.write(compressor.flush())
    assert answered(command("a.gz"), 0).startswith(NO_OOM)
    refused(command("b.zst"), "b.zst is ")


def test_a_compressed_file_that_is_cut(command, tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(FAILURE.encode())[:20])
    refused(command("a.gz"), "a.gz is damaged")


@POSIX
def test_folders_without_end(command, tmp_path):
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    (tmp_path / "logs" / "deep" / "up").symlink_to(tmp_path / "logs")
    (tmp_path / "self").symlink_to("self")
    refused(command("logs"), "There is no file to read in logs")
    refused(command("self"), "self")
    (tmp_path / "logs" / "deep" / "a.log").write_text(FAILURE)
    answered(command("logs"), 1)


@POSIX
def test_what_is_no_file(command, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").symlink_to("nowhere")
    for name in ("empty", "broken", "*.nothing", "/dev/zero", "a" * 5000):
        refused(command(name))


@POSIX
def test_a_named_pipe_is_read_to_its_end_and_one_in_a_folder_is_left_alone(command, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(FAILURE,))
    writer.start()
    answered(command("pipe"), 1)
    writer.join()
    (tmp_path / "a.log").write_text("hello")
    assert answered(command("."), 0).startswith(NO_OOM)


def test_standard_input(command):
    refused(command(), "standard input is empty")
    assert answered(command("-", stdin=b"hello"), 0).startswith(NO_OOM)
    answered(command("-", stdin=FAILURE.encode()), 1)


@POSIX
@pytest.mark.parametrize("output_format", ["text", "json", "markdown", "sarif", "github"])
def test_names_and_lines_that_attack_the_terminal(command, tmp_path, output_format):
    evil = "\x1b[2J\x1b]0;t\x07\x9b31m\u202e::error::x\n"
    (tmp_path / EVIL_NAME).write_text(evil + FAILURE.replace("step", "st\x1b[8mep") + evil)
    output = answered(command("--format", output_format, "--all", "--explain-evidence", "."), 1)
    assert not CONTROLS.search(output)
    assert not re.search(r"^\s*::error::x", output, re.MULTILINE)
    if output_format in ("json", "sarif"):
        json.loads(output)


@POSIX
def test_a_missing_file_whose_name_attacks_the_terminal(command):
    text = command(EVIL_NAME).stderr.decode()
    assert not CONTROLS.search(text.rstrip("\n"))
    assert text.count("\n") == 1


@POSIX
def test_a_name_that_is_not_text(command, tmp_path):
    name = os.fsdecode(b"a\xff.log")
    (tmp_path / name).write_text(FAILURE)
    for output_format in ("text", "json"):
        answered(command("--format", output_format, name), 1)


@pytest.fixture
def forbid(monkeypatch):
    """Makes opening the files of a name fail with an error (permissions do not stop root)."""

    def make(name: str, error: OSError) -> None:
        opened = Path.open

        def failing(path: Path, *arguments, **more):
            if path.name == name:
                raise error
            return opened(path, *arguments, **more)

        monkeypatch.setattr(Path, "open", failing)

    return make


ERRORS = [
    PermissionError(13, "Permission denied"),
    FileNotFoundError(2, "No such file or directory"),
    IsADirectoryError(21, "Is a directory"),
    OSError(5, "Input/output error"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_file_that_cannot_be_opened(forbid, tmp_path, error):
    """Also what happens to a file that vanishes between the listing of its folder and its turn."""
    (tmp_path / "bad.log").write_text(FAILURE)
    forbid("bad.log", error)
    with pytest.raises(InputError, match="not readable"):
        explain([tmp_path / "bad.log"])
    (tmp_path / "good.log").write_text(FAILURE)
    diagnosis = explain([tmp_path])
    assert diagnosis.exit_code == 1
    assert any("not readable" in note and "bad.log" in note for note in diagnosis.notes)


def test_a_file_whose_reading_breaks_off():
    class Breaking:
        def __init__(self) -> None:
            self.rest = FAILURE.encode()

        def read(self, _size: int) -> bytes:
            if not self.rest:
                raise OSError(5, "Input/output error")
            data, self.rest = self.rest, b""
            return data

    diagnosis = explain(["-"], stdin=Breaking())  # type: ignore[arg-type]
    assert diagnosis.exit_code == 1
    assert any("reading stopped early" in note for note in diagnosis.notes)
