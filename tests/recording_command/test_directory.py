"""Where a command's run goes, and what is done where it cannot go there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from oomph.errors import UsageError
from oomph.evidence.run.read import is_run, read_run
from oomph.recording.command.directory import make
from oomph.recording.command.model import Asked
from tests.recording_command.commands import RECORD, end_of, python, record


def made(tmp_path, monkeypatch, asked=None, environment=None):
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    found = make(asked or Asked(("python", "train.py")), environment or {}, "0.0", said.append)
    return found, said


def test_a_new_folder_named_after_the_script(tmp_path, monkeypatch):
    found, said = made(tmp_path, monkeypatch)
    assert found is not None
    assert found.path.parent == tmp_path / "oomph-runs"
    assert "-train-" in found.path.name
    assert said == []
    run = json.loads((found.path / "run.json").read_text())
    assert (run["command"], run["directory"], run["version"]) == (["python", "train.py"], str(tmp_path), 1)


def test_name_and_tags(tmp_path, monkeypatch):
    found, _ = made(tmp_path, monkeypatch, Asked(("python",), name="big one", tags={"data": "c4"}))
    assert found is not None
    assert "-big-one-" in found.path.name
    assert read_run(found.path).run.tags == {"data": "c4"}


def test_a_folder_that_takes_nothing_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "oomph-runs").write_text("a file where the folder belongs")
    found, said = made(tmp_path, monkeypatch)
    assert found is not None
    assert found.path.parent == tmp_path / "temporary" / "oomph-runs"
    assert len(said) == 1
    assert "recording into" in said[0]


def test_where_nothing_takes_files_the_command_runs_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    (tmp_path / "oomph-runs").write_text("")
    found, said = made(tmp_path, monkeypatch)
    assert found is None
    assert "without being recorded" in said[0]


def test_a_named_folder_that_cannot_be_used_stops_before_the_start(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be the run directory"):
        made(tmp_path, monkeypatch, Asked(("true",), run_dir=tmp_path / "file" / "run"))


def test_a_url_is_refused_and_makes_no_folder(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="oomph runs copy"):
        made(tmp_path, monkeypatch, Asked(("true",), run_dir=Path("s3://bucket/run")))
    assert not list(tmp_path.glob("s3*"))


def test_a_run_that_has_ended_is_not_written_over(tmp_path, monkeypatch):
    asked = Asked(("true",), run_dir=tmp_path / "run")
    found, _ = made(tmp_path, monkeypatch, asked)
    assert found is not None
    found.end(0, None, 1.0, print)
    with pytest.raises(UsageError, match="has ended"):
        made(tmp_path, monkeypatch, asked)


def test_the_commands_of_several_hosts_share_a_folder(tmp_path, monkeypatch):
    asked = Asked(("true",), run_dir=tmp_path / "run")
    first, _ = made(tmp_path, monkeypatch, asked)
    second, _ = made(tmp_path, monkeypatch, asked)
    assert first is not None
    assert second is not None
    assert (first.first, second.first) == (True, False)
    second.end(1, None, 1.0, print)
    first.end(0, None, 1.0, print)
    assert sorted(path.name for path in (tmp_path / "run").glob("end*")) == [
        f"end-{second.host}.json",
        "end.json",
    ]


def test_the_variable_names_the_folder(tmp_path, monkeypatch):
    found, _ = made(tmp_path, monkeypatch, environment={"OOMPH_RUN_DIR": str(tmp_path / "given")})
    assert found is not None
    assert found.path == tmp_path / "given"


def test_the_command_is_told_where_its_run_is(tmp_path):
    _, out, _ = record(tmp_path / "run", *python("import os\nprint(os.environ['OOMPH_RUN_DIR'])"))
    assert out.decode().strip() == str(tmp_path / "run")
    assert is_run(tmp_path / "run")


def test_a_disk_that_fills_up_costs_the_record_and_not_the_command(tmp_path):
    run = tmp_path / "run"
    (run / "ranks").mkdir(parents=True)
    os.symlink("/dev/full", run / "job.out")
    os.symlink("/dev/full", run / "job.err")
    code, out, err = record(run, "sh", "-c", "echo out; echo err >&2; exit 4")
    assert (code, out) == (4, b"out\n")
    assert b"err\n" in err
    assert err.count(b"the disk is full") == 2
    assert end_of(run).exit_code == 4


def test_a_folder_that_goes_away_meanwhile(tmp_path):
    run = tmp_path / "run"
    code, out, _ = record(run, "sh", "-c", f"rm -r {run}; echo still here; exit 6")
    assert (code, out) == (6, b"still here\n")


def test_a_named_folder_on_the_command_line(tmp_path):
    import subprocess

    (tmp_path / "file").write_text("")
    words = [
        *RECORD,
        "--run-dir",
        str(Path(tmp_path / "file" / "x")),
        "--",
        "touch",
        str(tmp_path / "started"),
    ]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"oomph: ")
    assert not (tmp_path / "started").exists()


def test_what_no_disk_takes_is_explained_all_the_same(tmp_path):
    import subprocess

    run = tmp_path / "run"
    (run / "ranks").mkdir(parents=True)
    for name in ("job.out", "job.err", "end.json"):
        os.symlink("/dev/full", run / name)
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
        " of which 1.00 GiB is free."
    )
    words = [
        *RECORD[:-3],
        "--every",
        "0",
        "--run-dir",
        str(run),
        "--",
        "sh",
        "-c",
        f"echo '{message}' >&2; exit 1",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "CUDA out of memory (GPU 0), asking for 4.00 GiB" in done.stderr


SLURM = {"SLURM_NTASKS": "2", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}


def test_a_command_for_each_rank_writes_that_rank_s_files(tmp_path):
    run = tmp_path / "run"
    for rank in ("0", "1"):
        given = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank}
        given.pop("OOMPH_RUN_DIR", None)
        code, out, _ = record(run, "sh", "-c", f"echo rank {rank}; exit {rank}", env=given)
        assert (code, out) == (int(rank), f"rank {rank}\n".encode())
    assert (run / "ranks/rank-00001.out").read_text() == "rank 1\n"
    assert not list(run.glob("job*"))
    assert (run / "end-rank-00001.json").exists()


def test_the_ranks_of_a_step_agree_on_a_folder(tmp_path, monkeypatch):
    found = [
        made(tmp_path, monkeypatch, environment={**SLURM, "SLURM_PROCID": rank, "SLURM_LOCALID": rank})[0]
        for rank in ("1", "0")
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].path == found[1].path
    assert [one.first for one in found if one] == [True, False]
    assert [one.speaks for one in found if one] == [False, True]
    assert [one.samples for one in found if one] == [False, True]
    assert [one.stem for one in found if one] == ["ranks/rank-00001", "ranks/rank-00000"]


def test_a_launcher_on_each_node_is_no_rank(tmp_path, monkeypatch):
    found = [
        made(
            tmp_path,
            monkeypatch,
            Asked(("torchrun", "--nnodes", "2", "train.py")),
            {**SLURM, "SLURM_PROCID": node, "SLURM_LOCALID": "0"},
        )[0]
        for node in ("0", "1")
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].path == found[1].path
    assert [one.rank for one in found if one] == [None, None]
    assert [one.stem for one in found if one] == ["job", f"job-{found[0].host}"]
