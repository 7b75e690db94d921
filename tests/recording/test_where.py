from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import msgspec
import pytest

from oomph.evidence.run.model import VERSION, End, Header
from oomph.recording import where
from oomph.recording.where import JOIN_SECONDS, Rank, launch_key, new_name, plain_name, rank_of, run_directory

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "3",
    "LOCAL_WORLD_SIZE": "8",
    "TORCHELASTIC_RESTART_COUNT": "1",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x1/none_ab12/attempt_1/3/error.json",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_ranks_by_launcher():
    assert rank_of(TORCHRUN) == Rank(3, 8, 3, 8, 1)
    mpi = {
        "OMPI_COMM_WORLD_RANK": "5",
        "OMPI_COMM_WORLD_SIZE": "16",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    }
    assert rank_of(mpi) == Rank(5, 16, 1, 4, 0)
    slurm = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "0"}
    assert rank_of(slurm) == Rank(2, 4, 0, 1, 0)
    # A batch script that starts one process has SLURM_NTASKS too, and no step.
    assert rank_of({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) == Rank()
    assert rank_of({"RANK": "many", "WORLD_SIZE": "-1"}) == Rank()


def test_what_the_environment_and_the_argument_say():
    assert str(run_directory({"OOMPH_RUN_DIR": "/a/b"}, Rank(), run_dir="c")) == "/a/b"
    assert str(run_directory({"OOMPH_RUN_DIR": "  "}, Rank(), run_dir="c")) == "c"


@pytest.mark.parametrize("given", ["s3://bucket/runs", "memory://x", "gs://a"])
def test_what_is_no_folder_is_refused_by_name(given):
    with pytest.raises(OSError, match="no folder of this machine"):
        run_directory({"OOMPH_RUN_DIR": given}, Rank())
    with pytest.raises(OSError, match="no folder of this machine"):
        run_directory({}, Rank(), run_dir=given)


def test_a_process_by_itself_gets_a_new_folder_each_time(tmp_path):
    first, second = run_directory({}, Rank(), name="x"), run_directory({}, Rank(), name="x")
    assert first != second
    assert first.parent == tmp_path / "oomph-runs"
    assert re.fullmatch(r"\d{8}-\d{6}-x-[0-9a-f]{6}", first.name)
    assert not (tmp_path / "oomph-runs").exists()


def test_all_ranks_of_a_launch_find_one_folder():
    names = {
        run_directory({**TORCHRUN, "RANK": str(rank)}, Rank(rank, 8, rank, 8), now=1000.0 + rank)
        for rank in range(8)
    }
    assert len(names) == 1
    # A restart has the agent's folder still, another attempt in it.
    again = {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x1/none_ab12/attempt_2/3/error.json"}
    assert {run_directory(again, Rank(3, 8, 3, 8, 2))} == names
    # The next launch has the same port and the same id, and another agent.
    other = {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_x1/none_cd34/attempt_0/3/error.json"}
    assert run_directory(other, Rank(3, 8, 3, 8)) not in names


def test_keys_the_surest_first():
    one_host, hosts = Rank(3, 8, 3, 8), Rank(3, 16, 3, 8)
    assert launch_key(TORCHRUN, one_host) == where.Key("agent /tmp/torchelastic_x1/none_ab12", unique=True)
    plain = {**TORCHRUN, "TORCHELASTIC_ERROR_FILE": ""}
    key = launch_key(plain, one_host)
    assert key is not None
    assert key.unique
    assert str(os.getppid()) in key.text.split()
    standalone = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "0b0dd6a6-0a58-4f6c-8d5c-0ba0b06d0d2a"}
    assert launch_key(standalone, hosts) == where.Key(
        "elastic 0b0dd6a6-0a58-4f6c-8d5c-0ba0b06d0d2a", unique=True
    )
    slurm = {**TORCHRUN, "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "1"}
    assert launch_key(slurm, hosts) == where.Key("slurm 77 1 0 none", unique=True)
    assert launch_key({**slurm, "SLURM_RESTART_COUNT": "2"}, hosts) != launch_key(slurm, hosts)
    mine = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "mine"}
    assert launch_key(mine, hosts) == where.Key("elastic mine", unique=False)
    assert launch_key(TORCHRUN, hosts) == where.Key("master localhost 29500", unique=False)
    assert launch_key({}, Rank()) is None


def test_a_key_that_comes_again_is_believed_for_ten_minutes():
    environment = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
    path = run_directory(environment, Rank(0, 2), now=None)
    made = next((path.parent / "launches").iterdir()).stat().st_mtime
    assert run_directory(environment, Rank(1, 2), now=made + JOIN_SECONDS - 1) == path
    # A restart joins at any time; another launch does not.
    assert run_directory(environment, Rank(1, 2, attempt=1), now=made + 10 * JOIN_SECONDS) == path
    later = run_directory(environment, Rank(0, 2), now=made + JOIN_SECONDS + 1)
    assert later != path


def test_a_name_that_never_comes_or_is_none(tmp_path):
    environment = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
    path = run_directory(environment, Rank(0, 2))
    file = next((path.parent / "launches").iterdir())
    for content in ("", "half", "../../etc\n", "a/b\n"):
        file.write_text(content)
        with pytest.raises(OSError, match="no name of a run"):
            run_directory(environment, Rank(1, 2), wait=0.05)


def test_a_rank_that_still_records_is_left_alone(tmp_path):
    directory = tmp_path / "run"
    assert where.not_taken(directory, Rank()) == directory
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        header = Header(VERSION, 0, 1, 0, other.pid, socket.gethostname(), 0.0, 0.0)
        (directory / "ranks").mkdir(parents=True)
        path = directory / "ranks" / "rank-00000.jsonl"
        path.write_bytes(msgspec.json.encode(header) + b"\n")
        assert where.not_taken(directory, Rank()).name == f"run-{os.getpid()}"
        assert where.not_taken(directory, Rank(1, 2)) == directory
        with path.open("ab") as file:
            file.write(msgspec.json.encode(End("completed", 0.0, 0.0)) + b"\n")
        assert where.not_taken(directory, Rank()) == directory
        path.write_bytes(msgspec.json.encode(header) + b"\n")
        other.communicate(b"\n")
    assert where.not_taken(directory, Rank()) == directory  # it was killed; a restart goes on here
    path.write_bytes(b'{"type":"header"\n')
    assert where.not_taken(directory, Rank()) == directory


def test_names_that_any_file_system_takes():
    assert plain_name("a b/c\\d:é") == "a-b-c-d"
    assert plain_name("../..") == "run"
    assert len(plain_name("x" * 300)) == 40
    assert new_name("n", 1e300).startswith("3000")
    assert new_name("n", -5.0).startswith("19700101-000000-n-")
