"""What `oomph snapshot` refuses: one sentence, exit code 2, and nothing is written."""

from __future__ import annotations

import os
import pickle

import pytest

from tests.cli.snapshots import job


class Code:
    """A pickle that runs code when it is loaded."""

    def __reduce__(self):
        return os.system, ("touch ran",)


def broken(folder) -> dict[str, str]:
    """Names of files that are no snapshot, with what the refusal says of each."""
    (folder / "job.log").write_text("step 1\nCUDA out of memory\n", encoding="utf-8")
    (folder / "empty.pickle").write_bytes(b"")
    (folder / "cut.pickle").write_bytes(pickle.dumps(job())[:-40])
    (folder / "other.pickle").write_bytes(pickle.dumps({"a": 1}))
    (folder / "code.pickle").write_bytes(pickle.dumps(Code()))
    (folder / "noise.pickle").write_bytes(bytes(range(256)) * 8)
    (folder / "folder").mkdir()
    return {
        "job.log": "oomph explain job.log",
        "empty.pickle": "empty",
        "cut.pickle": "cut short or damaged",
        "other.pickle": "no segments",
        "code.pickle": "code.pickle",
        "noise.pickle": "not a memory snapshot",
        "folder": "name the snapshots in it",
        "nothing.pickle": "No such file",
    }


class TestRefusals:
    @pytest.mark.parametrize(
        "name",
        [
            "job.log",
            "empty.pickle",
            "cut.pickle",
            "other.pickle",
            "code.pickle",
            "noise.pickle",
            "folder",
            "nothing.pickle",
        ],
    )
    def test_a_file_that_is_no_snapshot(self, run, files, name):
        says = broken(files)[name]
        result = run("snapshot", name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert not (files / "ran").exists()

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--at", "5000"], "events 0 to 8"),
            (["--at", "100s"], "the trace is"),
            (["--at", "yesterday"], "is no moment"),
            (["--at", "retry"], "--at retry"),
            (["--device", "7"], "--device 7"),
            (["--what-if", "expandible_segments:True"], "expandible_segments"),
            (["--what-if", "max_split_size_mb:1"], "too small"),
            (["--what-if", "capacity:much"], "capacity:40GiB"),
            (["--what-if", ""], "empty"),
            (["--capacity", "much"], "--capacity 'much' is no size"),
            (["--capacity", "0GiB"], "is no size"),
            (["--export", "events.xls"], ".parquet"),
            (["--export", "oom.pickle"], "is the snapshot that is being read"),
            (["--export", "no/where.csv"], "does not exist"),
            (["--export", "a.csv", "--export", "a.csv"], "two outputs"),
            (["--export", "a.csv", "-o", "a.csv"], "two outputs"),
            (["--export", "a.csv", "--window", "last week"], "is no window"),
            (["--export", "a.csv", "--window", ":"], "is no window"),
            (["--export", "a.csv", "--window", "5000:6000"], "holds no events"),
            (["--export", "a.csv", "--window", "100s:200s"], "--window 100s: the trace is"),
            (["--export", "a.speedscope.json", "--window", "1:2"], "say which with --at"),
            (["--window", "1:2"], "--export"),
            (["-o", "oom.pickle"], "is one of the inputs"),
            (["-o", "folder"], "not a regular file"),
            (["--compare"], "two snapshots or more"),
            (["--compare", "--format", "html"], "leave --format html out"),
            (["--format", "html", "fine.pickle"], "one snapshot"),
            (["--export", "a.csv", "fine.pickle"], "one snapshot"),
            (["oom.pickle"], "named twice"),
            (["-"], "standard input"),
            ([" "], "is empty"),
        ],
    )
    def test_an_option_that_makes_no_sense(self, run, files, arguments, says):
        (files / "folder").mkdir()
        before = {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()}
        result = run("snapshot", *arguments, "oom.pickle")
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()} == before

    @pytest.mark.skipif(os.name == "nt", reason="Windows allows no such names")
    @pytest.mark.parametrize("arguments", [[], ["--redact"], ["--format", "json"]])
    def test_a_name_does_nothing_to_the_terminal(self, run, files, arguments):
        name = "bad\x1b[31m\n::error::x.pickle"
        (files / name).write_bytes(b"")
        (files / f"good{name}").write_bytes(pickle.dumps(job()))
        for given in (
            [name],
            [name, f"good{name}"],
            ["-v", f"good{name}"],
            ["no" + name],
            ["-o", "no/" + name, name],
        ):
            result = run("snapshot", *arguments, *given, color=True)
            printed = result.stdout + result.stderr
            assert "\x1b" not in printed
            assert not any(line.startswith("::") for line in printed.splitlines())

    def test_no_file_is_a_usage_error(self, run):
        result = run("snapshot")
        assert (result.exit_code, "Usage: oomph snapshot" in result.stderr) == (2, True)
