"""The launchers' tables are compared with the launchers' own parsers, where these are installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oomph.tracing.target import parse
from oomph.tracing.target.launchers import ACCELERATE
from oomph.tracing.target.torchrun import TABLE

_LIST = """
import json, warnings
warnings.simplefilter("ignore")
from {module} import {function} as make
rows = []
for action in make()._actions:
    rows.append([action.option_strings, action.nargs == 0])
print(json.dumps(rows))
"""


def flags_of(module, function):
    """(spellings, takes no value) of a launcher's own parser; None where the launcher is not installed."""
    code = _LIST.format(module=module, function=function)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    if "ModuleNotFoundError" in done.stderr:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def check(table, rows):
    for spellings, switch in rows or ():
        for spelling in spellings:
            name = spelling.lstrip("-").replace("-", "_")
            if not spelling.startswith("--"):
                name = table.short[name]
            assert (name in table.switches) == switch, spelling
            if not switch and table.values is not None:
                assert name in table.values, spelling


def test_torchruns_flags_are_torchs():
    check(TABLE, flags_of("torch.distributed.run", "get_args_parser"))


def test_accelerates_flags_are_accelerates():
    check(ACCELERATE, flags_of("accelerate.commands.launch", "launch_command_parser"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text("")
    return tmp_path


def read(line, folder, **environment):
    return parse(line.split(), folder=folder, environment=environment)


@pytest.mark.parametrize(
    ("line", "world", "local"),
    [
        ("torchrun train.py", 1, 1),
        ("torchrun --nproc_per_node=8 train.py", 8, 8),
        ("torchrun --nproc-per-node 4 --nnodes=3 train.py", 12, 4),
        ("torchrun --nnodes=1:4 --nproc_per_node 2 train.py", 8, 2),
        ("torchrun --nproc 4 train.py --nnodes 9", 4, 4),
        ("torchrun --standalone --nproc_per_node=gpu train.py", None, None),
        ("python -m torch.distributed.run -r3 --nproc_per_node 2 -- train.py", 2, 2),
        ("python -m torch.distributed.launch --use_env --nproc_per_node 2 train.py", 2, 2),
        ("accelerate launch train.py", None, None),
        ("accelerate launch --multi_gpu --num_processes=16 --num_machines 2 train.py", 16, 8),
        ("accelerate launch --use-fsdp --num-processes 4 -m pkg.mod", 4, 4),
        ("accelerate-launch --mixed_precision bf16 --num_processes 1 train.py", 1, 1),
        ("deepspeed --num_gpus 8 --num_nodes 2 train.py --deepspeed c.json", 16, 8),
        ("deepspeed --include localhost:0,2,3 train.py", 3, 3),
        ("deepspeed train.py", None, None),
        ("fabric run --devices 2 --num-nodes 2 train.py", 4, 2),
        ("fabric run --devices 0,3 train.py", 2, 2),
        ("lightning run model train.py", 1, 1),
    ],
)
def test_how_many_processes(line, world, local, folder):
    target = read(line, folder)
    assert (target.world_size, target.local_world_size) == (world, local)


def test_the_flags_after_the_script_are_the_scripts(folder):
    target = read("torchrun --nproc_per_node 2 train.py --nproc_per_node 3 -m x", folder)
    assert target.arguments == ("--nproc_per_node", "3", "-m", "x")
    assert target.launcher is not None
    assert target.launcher.arguments == ("--nproc_per_node", "2")


def test_torchruns_defaults_come_from_variables(folder):
    target = read("torchrun train.py", folder, PET_NPROC_PER_NODE="4", PET_NNODES="2")
    assert target.world_size == 8


def test_accelerates_config_file_counts(folder):
    (folder / "c.yaml").write_text("distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\n")
    target = read("accelerate launch --config_file c.yaml train.py", folder)
    assert (target.world_size, target.local_world_size) == (16, 8)
    target = read("accelerate launch --config_file c.yaml --num_processes 4 train.py", folder)
    assert target.world_size == 4


def test_accelerates_default_config_is_found_where_accelerate_writes_it(folder):
    place = folder / "home" / "accelerate"
    place.mkdir(parents=True)
    (place / "default_config.yaml").write_text("num_processes: 2\n")
    target = read("accelerate launch train.py", folder, HF_HOME=str(folder / "home"))
    assert target.world_size == 2


def test_fabric_sets_its_variables(folder):
    target = read("fabric run --devices 2 --precision bf16-mixed --strategy fsdp train.py a", folder)
    assert target.launcher is not None
    assert target.launcher.environment == {
        "LT_CLI_USED": "1",
        "LT_DEVICES": "2",
        "LT_NUM_NODES": "1",
        "LT_PRECISION": "bf16-mixed",
        "LT_STRATEGY": "fsdp",
    }
