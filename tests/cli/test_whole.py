"""`oomph explain` with nothing faked: what goes in, what comes out, and the exit code."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.diagnose import logs

HEADLINE = "No out-of-memory failure found in what could be read of 1 file: its end is missing"
EXAMPLES = ROOT / "examples"
LINE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB"


@pytest.mark.parametrize("name", ["ddp-backward.log", "neighbour.log", "fragmentation.log", "rank-logs"])
def test_every_example_is_a_failure_told_in_plain_text(run, name):
    result = run("explain", str(EXAMPLES / name))
    assert (result.exit_code, result.stderr) == (1, "")
    assert "\nWhy\n" in result.stdout
    assert "\nFirst change\n" in result.stdout
    assert "\x1b" not in result.stdout


def test_no_color_and_always(run, monkeypatch):
    path = str(EXAMPLES / "ddp-backward.log")
    plain = run("explain", path).stdout
    coloured = run("explain", "--color", "always", path, color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in coloured
    assert run("explain", path).stdout == plain


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.log"], "missing.log"),
        (["*.nothing"], "*.nothing"),
        (["empty.log"], "empty"),
        (["folder"], "folder"),
        (["binary.bin"], "binary.bin"),
    ],
)
def test_input_from_which_nothing_can_be_read(run, tmp_path, arguments, words):
    (tmp_path / "empty.log").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)) * 64)
    result = run("explain", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("oomph: ")
    assert words in result.stderr
    assert "internal error" not in result.stderr


def test_a_job_that_ran_well(run, tmp_path):
    (tmp_path / "train.log").write_text(
        "step 1 loss 2.1\nstep 2 loss 2.0\ntraining finished\n", encoding="utf-8"
    )
    result = run("explain", "train.log")
    assert (result.exit_code, result.stderr) == (0, "")


def test_one_line_is_enough(run):
    result = run("explain", stdin=LINE)
    assert result.exit_code == 1
    assert "2.00 GiB" in result.stdout


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_standard_input_may_be_compressed(run, arguments):
    data = gzip.compress((EXAMPLES / "neighbour.log").read_bytes())
    result = run("explain", *arguments, stdin=data)
    assert result.exit_code == 1
    assert "21.84 GiB" in result.stdout


def test_empty_standard_input(run):
    result = run("explain", stdin="")
    assert result.exit_code == 2
    assert result.stderr.startswith("oomph: standard input is empty")


def test_json_is_one_object(run):
    result = run("explain", "--format", "json", str(EXAMPLES / "ddp-backward.log"))
    answer = json.loads(result.stdout)
    assert answer["outcome"] == "failed"
    assert answer["exit_code"] == result.exit_code == 1
    assert answer["schema_version"]


def test_sarif_and_github_name_the_line(run):
    path = str(EXAMPLES / "ddp-backward.log")
    line = (EXAMPLES / "ddp-backward.log").read_text(encoding="utf-8").split("torch.OutOfMemoryError")[
        0
    ].count("\n") + 1
    sarif = json.loads(run("explain", "--format", "sarif", path).stdout)
    assert sarif["version"] == "2.1.0"
    (annotation, *_) = run("explain", "--format", "github", path).stdout.splitlines()
    assert annotation.startswith("::error file=")
    assert f"line={line}," in annotation


def test_redact_takes_names_out(run):
    text = run("explain", "--redact", "--explain-evidence", "--all", str(EXAMPLES / "neighbour.log")).stdout
    assert "mira" not in text
    assert "olek" not in text
    assert str(ROOT) not in text


def test_ignoring_the_best_finding_leaves_the_next(run):
    path = str(EXAMPLES / "neighbour.log")
    every = json.loads(run("explain", "--format", "json", path).stdout)["findings"]
    fewer = json.loads(run("explain", "--format", "json", "--ignore", every[0]["code"], path).stdout)[
        "findings"
    ]
    assert every[0]["cause"] == "other_process"
    assert every[0]["code"] not in [finding["code"] for finding in fewer]


def test_a_console_without_the_drawing_characters(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "oomph", "explain", str(EXAMPLES / "ddp-backward.log")],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.isascii()
    assert b"?" not in done.stdout.split(b"\n\n")[1]  # the bar is drawn with characters that the console has


def test_every_rule_is_printed(run):
    codes = [line.split()[0] for line in run("rules").stdout.splitlines()]
    result = run("rule", *codes)
    assert result.exit_code == 0
    assert all(f"{code}  " in result.stdout for code in codes)


STEPS = "".join(f"step {number} loss {3 - number / 10_000:.4f}\n" for number in range(20_000))


class TestDamagedFiles:
    """What could be read of a damaged or cut file counts, and the answer says that there was more."""

    @pytest.fixture
    def failed(self):
        frames = ["/srv/train.py:70 in main: loss.backward()", "torch/_tensor.py:630 in backward: engine()"]
        return logs.traceback(frames, logs.oom())

    @pytest.mark.parametrize("at", [-8, -1])  # CRC-32, length
    @pytest.mark.parametrize("before", ["", STEPS])
    def test_a_trailer_that_does_not_fit_costs_no_text(self, run, tmp_path, failed, at, before):
        data = bytearray(gzip.compress((before + failed).encode()))
        data[at] ^= 0xFF
        (tmp_path / "a.log.gz").write_bytes(data)
        result = run("explain", "a.log.gz")
        assert result.exit_code == 1
        assert result.stdout.startswith("CUDA out of memory in backward")
        assert "check sum does not fit" in " ".join(result.stdout.split())

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], HEADLINE),
            (["--format", "github"], f"::warning title=oomph explain::{HEADLINE}\n"),
            (["--format", "json"], f'"summary": "{HEADLINE}"'),
            (["--format", "markdown"], f"### {HEADLINE}\n"),
            (["--format", "sarif"], f'"summary": "{HEADLINE}"'),
        ],
    )
    def test_a_cut_file_without_a_failure(self, run, tmp_path, arguments, words):
        (tmp_path / "a.log.gz").write_bytes(gzip.compress(STEPS.encode())[:-3000])
        result = run("explain", *arguments, "a.log.gz")
        assert result.exit_code == 0
        assert words in (result.stdout if arguments else " ".join(result.stdout.split()))

    def test_a_zstd_file_with_a_long_window(self, run, tmp_path):
        # Magic, no options, window descriptor 0xA8: 2 ** (10 + 21) bytes; an empty last block.
        (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00")
        result = run("explain", "a.zst")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "oomph: a.zst is compressed with a longer window than can be opened here. "
            "Run `zstd -d --long=31` on it first.\n"
        )


@pytest.mark.parametrize("text", ["\n", "\n\n  \n\t\r\n"])
def test_blank_lines_are_as_much_as_nothing(run, tmp_path, text):
    (tmp_path / "a.log").write_bytes(text.encode())
    result = run("explain", "a.log")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("oomph: a.log is empty.")


def test_what_is_about_the_whole_input_bears_no_name(run, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.log").write_text("step 1 loss 2.0\n")
    (tmp_path / "folder" / "b.pdf").write_bytes(b"%PDF-1.7 \x00\x01")
    document = json.loads(run("explain", "--format", "json", "folder").stdout)
    assert document["notes"] == ["passed over, because not text: folder/b.pdf"]
    assert document["sources"][0]["notes"] == []


@pytest.mark.parametrize("rules", [["--ignore", "OOM"], ["--select", "OOM504"]])
def test_rules_that_were_left_out_are_the_reason_for_no_finding(run, rules):
    words = "Rules were left out (--select/--ignore); the others find no cause."
    path = str(EXAMPLES / "ddp-backward.log")
    text = run("explain", *rules, path).stdout
    assert f"Why\n  {words}\n" in text
    assert "proves a cause" not in text
    assert words in json.loads(run("explain", "--format", "json", *rules, path).stdout)["notes"]


@pytest.mark.parametrize("paths", [[""], ["  "], [str(EXAMPLES / "ddp-backward.log"), ""]])
def test_an_empty_path_is_not_the_current_folder(run, tmp_path, paths):
    (tmp_path / "a.log").write_text("step 1\n")
    result = run("explain", *paths)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "A PATH is empty (an unset variable?): name a log or a folder." in result.stderr


class TestRedactedStderr:
    """With --redact no message on stderr names a file either."""

    def test_verbose(self, run, tmp_path):
        (tmp_path / "gpu-node-17.log").write_text("step 1\n")
        result = run("explain", "--redact", "-v", "gpu-node-17.log")
        assert result.stderr.startswith("read <file-1>.log: 7 bytes\n")
        assert "gpu-node-17" not in result.output

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("/lustre/mrossi", "oomph: <file-1> does not exist."),
            ("mrossi.log", "oomph: <file-1>.log does not exist."),
            ("mrossi/*.log", "oomph: No file matches <file-1>"),
        ],
    )
    def test_errors(self, run, path, words):
        result = run("explain", "--redact", path)
        assert result.exit_code == 2
        assert result.stderr.startswith(words)
        assert "mrossi" not in result.output

    def test_files_of_a_folder_that_cannot_be_read(self, run, tmp_path):
        (tmp_path / "mrossi").mkdir()
        for name in ("secretproj.pdf", "b.pdf"):
            (tmp_path / "mrossi" / name).write_bytes(b"%PDF-1.7 \x00\x01")
        result = run("explain", "--redact", ".")
        assert result.exit_code == 2
        assert "mrossi" not in result.stderr

    def test_names_of_inputs_in_the_report(self, run, tmp_path):
        (tmp_path / "gpu-node-17.log").write_bytes((EXAMPLES / "fragmentation.log").read_bytes())
        (tmp_path / "mrossi.pdf").write_bytes(b"%PDF-1.7 \x00\x01")
        for output_format in ("text", "json", "markdown", "sarif", "github"):
            result = run("explain", "--redact", "--explain-evidence", "--format", output_format, ".")
            assert result.exit_code == 1
            assert "gpu-node-17" not in result.stdout
            assert "mrossi" not in result.stdout
