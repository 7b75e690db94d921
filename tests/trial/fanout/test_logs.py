"""Logs that other processes read: the same documents, the same answer, byte for byte."""

import gzip
import json
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner

from oomph.cli.main import cli
from oomph.evidence.sources import Limits, load_all, read_wanted
from oomph.evidence.sources.elsewhere import Far
from oomph.trial.engines.local import LocalEngine
from oomph.trial.fanout.logs import packed, reads_elsewhere, text_of

MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU {gpu} has a total capacity of 79.11 "
    "GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the "
    "allocated memory 74.90 GiB is allocated by PyTorch, and 1.31 GiB is reserved by PyTorch but unallocated."
)


def log(rank: int, lines: int, failures: int = 0) -> str:
    """Metrics of a rank, with failures spread over them."""
    rows = [
        f"[rank{rank}] step={step} loss={2 - step / 9999:.4f} allocated={step % 70}.5GiB"
        for step in range(lines)
    ]
    for number in range(failures):
        rows[(number + 1) * lines // (failures + 1)] = failure(rank)
    return "\n".join(rows) + "\n"


def failure(rank: int) -> str:
    return (
        f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "train.py", line 9, in step\n'
        f"[rank{rank}]:     loss.backward()\n[rank{rank}]: {MESSAGE.format(gpu=rank % 8)}"
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    """Thirty files of all kinds that are found beside the logs of ranks."""
    place = tmp_path / "logs"
    place.mkdir()
    for rank in range(20):
        (place / f"rank_{rank}.log").write_text(log(rank, 100 * (rank + 1), failures=rank % 3))
    with (place / "rank_19.log").open("a") as file:
        file.write(failure(19) + "\n")  # this one ends the job
    (place / "rank_20.log").write_text(log(20, 10_000, failures=200))
    (place / "rank_21.log.gz").write_bytes(gzip.compress(log(21, 6_000, failures=2).encode()))
    (place / "rank_22.log").write_bytes(log(22, 4_000, failures=1).encode("utf-16"))
    (place / "rank_23.log").write_bytes(gzip.compress(log(23, 6_000, failures=2).encode())[:-2000])
    (place / "flood.log").write_text("\n" * 60_000 + log(3, 50, failures=1) + "x\n" * 60_000)
    (place / "bad.log").write_bytes(b"\xff\xfe\xfd odd \xed\xa0\x80\n" + log(4, 6_000, failures=1).encode())
    (place / "empty.log").write_bytes(b"")
    (place / "weights.bin").write_bytes(bytes(range(256)) * 400)
    (place / "snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
    cell = {"cell_type": "code", "outputs": [{"output_type": "stream", "text": log(5, 6_000, failures=1)}]}
    (place / "run.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    records = [
        json.dumps({"time": step, "rank": 6, "msg": row})
        for step, row in enumerate(log(6, 3000, 1).split("\n"))
    ]
    (place / "records.jsonl").write_text("\n".join(records))
    (place / "train.py").write_text("import torch\n\ndef main():\n    torch.zeros(3)\n" * 40)
    return place


def in_this_process():
    """As workers do it, with what they write on the way."""

    def read(wanted):
        texts = [read_wanted(one) for one in wanted]
        return [None if text is None else text_of(json.loads(json.dumps(packed(text)))) for text in texts]

    return read


@pytest.mark.parametrize(
    "bounds",
    [
        # (of all files, of one file, read whole): with room, as a command has it, tight, and tighter than one failure.
        (64 << 20, 6 << 20, 1 << 20),
        (20 << 20, 6 << 20, 32 << 10),
        (1 << 20, 6 << 20, 16 << 10),
        (200_000, 100_000, 8 << 10),
    ],
)
@pytest.mark.parametrize("shrink", [1, 8])
def test_every_bound_gives_the_same_documents(folder, bounds, shrink, monkeypatch):
    limits = Limits(
        whole=bounds[2], head=4096, tail=8192, samples=16, sample=512, shrink=shrink, kept=bounds[1], chunk=1 << 16,
        all_files=bounds[0], files=30,
    )  # fmt: skip
    taken: list[bool] = []
    under = Far.under

    def counted(self, own):
        text = under(self, own)
        taken.append(text is not None)
        return text

    monkeypatch.setattr(Far, "under", counted)
    here = load_all([folder], limits=limits)
    far = load_all([folder], limits=limits, elsewhere=in_this_process())
    assert far == here
    # Twenty-four logs of ranks, a flood, a bad one, a notebook and records are text.
    assert len(taken) == 28
    if bounds[0] > 2 << 20:
        assert sum(taken) >= 26  # all but those whose beginning depends on what the first one kept
    else:
        assert 0 < sum(taken) < 28


def answers(*words: str) -> list[tuple[int, str]]:
    found = []
    for output_format in ("text", "json"):
        result = CliRunner().invoke(cli, ["explain", *words, "--format", output_format], prog_name="oomph")
        found.append((result.exit_code, result.stdout))
    return found


def test_the_command_says_the_same(folder):
    for path in (*folder.glob("rank_?.log"), *folder.glob("rank_1[0-7].log"), folder / "rank_20.log"):
        path.unlink()  # enough is left, and a diagnosis takes its time
    alone = answers(str(folder))
    assert alone[0][0] == 1
    assert answers(str(folder), "--jobs", "2") == alone


def test_a_file_that_is_not_there(folder):
    words = [str(folder / "rank_0.log"), str(folder / "rank_99.log")]
    alone = CliRunner().invoke(cli, ["explain", *words])
    far = CliRunner().invoke(cli, ["explain", *words, "--engine", "local"])
    assert (far.exit_code, far.output) == (alone.exit_code, alone.output)
    assert alone.exit_code == 2


class Unreliable(LocalEngine):
    """One of its workers dies."""

    def start(self, task):
        if task.name == "files 2":
            task = task.__class__("files 2", ("sh", "-c", "kill -9 $$"), task.folder, task.working_directory)
        super().start(task)


def test_a_share_whose_worker_dies_is_read_here(folder):
    said: list[str] = []
    engine = Unreliable(2)
    try:
        far = load_all([folder], elsewhere=reads_elsewhere(engine, said.append))
    finally:
        engine.close()
    assert far == load_all([folder])
    (sentence,) = said
    assert sentence.endswith(
        "of 32 files were not read by --engine local and are read here: a worker ended with exit code 137"
    )


def test_options_that_do_not_go_together(folder):
    for words in (
        ["--follow", "--jobs", "2"],
        ["--compare", "--engine", "local"],
        ["--engine-option", "a=b"],
    ):
        result = CliRunner().invoke(cli, ["explain", str(folder), *words])
        assert result.exit_code == 2, words
        assert "engine" in result.output


def test_standard_input_is_read_here():
    result = CliRunner().invoke(cli, ["explain", "-", "--jobs", "2"], input=log(0, 30) + failure(0))
    assert result.exit_code == 1
