from __future__ import annotations

import contextlib
import itertools
import shlex

import pytest

from oomph.errors import InputError, OomphError, UsageError
from oomph.tracing.target import Kind, parse


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("")
    (tmp_path / "run.sh").write_text("#!/bin/bash\npython train.py\n")
    (tmp_path / "job").write_text("#!/usr/bin/env bash\n")
    (tmp_path / "tool").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("")
    (tmp_path / "empty").mkdir()
    return tmp_path


def read(line, folder, **environment):
    return parse(shlex.split(line), folder=folder, environment={"PATH": "/nowhere", **environment})


@pytest.mark.parametrize(
    ("line", "kind", "name", "arguments"),
    [
        ("train.py --batch 8", Kind.SCRIPT, "train.py", ("--batch", "8")),
        ("python train.py -m x", Kind.SCRIPT, "train.py", ("-m", "x")),
        ("python3.11 -u -B train.py", Kind.SCRIPT, "train.py", ()),
        ("python -m pkg.mod --m", Kind.MODULE, "pkg.mod", ("--m",)),
        ("python -um pkg.mod", Kind.MODULE, "pkg.mod", ()),
        ("python -mpkg.mod", Kind.MODULE, "pkg.mod", ()),
        ("python -c 'print(1)' 2", Kind.CODE, "print(1)", ("2",)),
        ("python app", Kind.SCRIPT, "app", ()),
        ("tool a", Kind.SCRIPT, "tool", ("a",)),
        ("pkg.train:main", Kind.FUNCTION, "pkg.train:main", ()),
        ("ruff-no", None, "", ()),
    ],
)
def test_what_python_would_run(line, kind, name, arguments, folder):
    if kind is None:
        with pytest.raises(InputError, match="neither a file here nor a command"):
            read(line, folder)
        return
    target = read(line, folder)
    assert (target.kind, target.name, target.arguments) == (kind, name, arguments)


def test_python_options_that_change_how_code_runs_are_handed_on(folder):
    target = read("python -X faulthandler -Wignore -u -OO train.py -W 1", folder)
    assert target.interpreter == ("-X", "faulthandler", "-Wignore", "-OO")
    assert target.arguments == ("-W", "1")


def test_variables_before_the_command(folder):
    target = read("CUDA_VISIBLE_DEVICES=0,1 env A=b=c python train.py X=1", folder)
    assert target.environment == {"CUDA_VISIBLE_DEVICES": "0,1", "A": "b=c"}
    assert target.arguments == ("X=1",)


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ("uv run --with rich python train.py", "uv run --with rich"),
        ("uv --directory x run train.py", "uv --directory x run"),
        ("poetry run python train.py", "poetry run"),
        ("conda run -n env python train.py", "conda run -n env"),
        ("nohup python train.py", "nohup"),
        ("srun -N 2 --gres=gpu:8 python train.py", "srun -N 2 --gres=gpu:8"),
        ("numactl -N 0 python train.py", "numactl -N 0"),
    ],
)
def test_runners_are_left_out_and_said(line, left_out, folder):
    target = read(line, folder)
    assert (target.kind, target.name) == (Kind.SCRIPT, "train.py")
    assert any(note.startswith(f"{left_out} is left out") for note in target.notes)


def test_srun_around_torchrun_keeps_torchruns_numbers(folder):
    target = read("srun --ntasks 2 torchrun --nproc_per_node 4 --nnodes 2 train.py", folder)
    assert (target.world_size, target.local_world_size) == (2 * 4, 4)
    assert any("--world" in note for note in target.notes)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("./run.sh", "shell script"),
        ("job", "shell script"),
        ("bash run.sh", "give the python command"),
        ("notes.ipynb", "notebook"),
        ("python", "give a script"),
        ("python -", "give a script"),
        ("python -m", "nothing to run"),
        ("python missing.py", "does not exist"),
        ("empty", "without __main__"),
        ("torchrun", "given no script"),
        ("torchrun --nproc_per_node", "lacks its value"),
        ("torchrun --no-such 1 train.py", "no flag --no-such"),
        ("torchrun --nproc_per_node many train.py", "number of at least 1"),
        ("torchrun --nproc_per_node 0 train.py", "number of at least 1"),
        ("accelerate config", "launch"),
        ("uv pip install x", "runs no script"),
        ("A=1", "left of the command"),
        ("srun hostname", "No Python command"),
    ],
)
def test_what_cannot_be_traced_gets_a_sentence(line, why, folder):
    with pytest.raises(OomphError, match=why):
        read(line, folder)


def test_nothing_at_all():
    with pytest.raises(UsageError, match="after --"):
        parse([])


def test_an_installed_command_is_its_entry_point(folder):
    target = read("oomph -q", folder)  # pyproject.toml, [project.scripts]
    assert (target.kind, target.name, target.arguments) == (Kind.ENTRY, "oomph.cli.main:main", ("-q",))


def test_any_words_give_a_target_or_a_sentence(folder):
    pieces = [
        "python",
        "-m",
        "--",
        "-",
        "",
        "torchrun",
        "train.py",
        "A=1",
        "uv",
        "run",
        "\0",
        "a:b",
        "-c",
        "env",
        "é",
    ]
    for words in itertools.product(pieces, repeat=3):
        with contextlib.suppress(OomphError):
            assert parse(words, folder=folder, environment={}).kind in Kind
