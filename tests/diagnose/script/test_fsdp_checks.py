import inspect

import pytest

from oomph.diagnose.script.checks import scr101_sharding_strategy, scr118_fsdp_argument
from tests.diagnose.script.marked import fix_of, found, marked

HEAD = """
import torch
from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel as FSDP, ShardingStrategy, fully_shard
"""


def test_the_strategies_are_those_of_the_installed_pytorch():
    from torch.distributed.fsdp import ShardingStrategy

    assert set(scr101_sharding_strategy.MEMBERS) == set(ShardingStrategy.__members__)


def test_the_words_are_those_of_the_installed_transformers():
    from transformers.trainer_utils import FSDPOption

    assert {option.value for option in FSDPOption} <= set(scr101_sharding_strategy.WORDS)


def test_the_arguments_are_those_of_the_installed_pytorch():
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    assert set(inspect.signature(FullyShardedDataParallel).parameters) <= set(
        scr118_fsdp_argument.FSDP1_ARGUMENTS
    )
    assert set(inspect.signature(fully_shard).parameters) <= set(scr118_fsdp_argument.FSDP2_ARGUMENTS)
    names = list(inspect.signature(FullyShardedDataParallel).parameters)
    # The places that SCR102 and SCR110 look at.
    assert names[3] == "cpu_offload"
    assert names[4] == "auto_wrap_policy"


@pytest.mark.parametrize(
    "call",
    [
        "FSDP(model, policy, sharding_strategy=ShardingStrategy.SHARD_FULL)  # SCR101",
        "FSDP(model, auto_wrap_policy=p, sharding_strategy=ShardingStrategy.FULL_SHRAD)  # SCR101",
        "FSDP(model, auto_wrap_policy=p, cpu_offload=True)  # SCR102",
        "FSDP(model, None, None, False, p)  # SCR102",
        "FSDP(model, auto_wrap_policy=p, shard_size=4)  # SCR118",
        "FSDP(model)  # SCR110",
        "FSDP(model, auto_wrap_policy=None, device_id=0)  # SCR110",
        "fully_shard(model)  # SCR110",
        "fully_shard(model, sharding_strategy=1)  # SCR110 SCR118",
    ],
)
def test_a_call_that_is_wrong(tmp_path, call):
    text = HEAD + "def wrap(model, p, policy):\n    return " + call + "\n"
    # Without a policy by name the first call has one unit; only the marked code is of interest in it.
    expected = marked(text)
    wanted = {code for _, code in expected}
    assert [one for one in found(tmp_path, text) if one[1] in wanted] == expected
    assert expected


@pytest.mark.parametrize(
    "code",
    [
        "FSDP(model, auto_wrap_policy=p, sharding_strategy=ShardingStrategy.FULL_SHARD)",
        "FSDP(model, None, ShardingStrategy.HYBRID_SHARD, CPUOffload(offload_params=True), p)",
        "FSDP(model, auto_wrap_policy=p, cpu_offload=None)",
        "[FSDP(block) for block in model.layers]; FSDP(model)",
        "for block in model.layers:\n        fully_shard(block)\n    fully_shard(model)",
        "model.apply(lambda m: fully_shard(m) if isinstance(m, Block) else None)",
    ],
)
def test_a_call_that_is_right(tmp_path, code):
    assert found(tmp_path, HEAD + "def wrap(model, p, Block):\n    " + code + "\n") == []


def test_what_comes_with_two_stars_is_not_told(tmp_path):
    from oomph.diagnose.script.engine import check_scripts

    path = tmp_path / "train.py"
    path.write_text(HEAD + "def wrap(model, options):\n    return FSDP(model, **options)\n")
    scripts = check_scripts([path])
    assert scripts.findings == ()
    assert [one.code for one in scripts.untold] == ["SCR110"]


@pytest.mark.parametrize(
    ("lines", "fsdp"),
    [
        ("model.cuda()  # SCR107", "FSDP(model, auto_wrap_policy=p)"),
        ("model = build().to('cuda')  # SCR107", "FSDP(model, auto_wrap_policy=p)"),
        ("model = model.to(local_rank)  # SCR107", "FSDP(model, auto_wrap_policy=p)"),
        (
            "device = torch.device(f'cuda:{local_rank}')\n    model.to(device)  # SCR107",
            "FSDP(model, auto_wrap_policy=p)",
        ),
        ("pass", "FSDP(build().cuda(), auto_wrap_policy=p)  # SCR107"),
        ("model = load(device_map='auto')  # SCR107", "FSDP(model, auto_wrap_policy=p)"),
        ("model.cuda()  # SCR107", "[fully_shard(b) for b in model.blocks]; fully_shard(model)"),
    ],
)
def test_a_model_on_the_gpu_before_it_is_sharded(tmp_path, lines, fsdp):
    text = HEAD + f"def wrap(model, p, local_rank):\n    {lines}\n    return {fsdp}\n"
    assert found(tmp_path, text, "SCR107") == marked(text)
    assert len(marked(text)) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "model = FSDP(model, auto_wrap_policy=p)\n    model.cuda()",
        "model.to(torch.bfloat16)\n    model = FSDP(model, auto_wrap_policy=p)",
        "teacher.cuda()\n    model = FSDP(model, auto_wrap_policy=p)",
        "model.to('cpu')\n    model = FSDP(model, auto_wrap_policy=p)",
        "model = build().cuda()\n    model = build()\n    model = FSDP(model, auto_wrap_policy=p)",
        "device = torch.device('meta')\n    model.to(device)\n    model = FSDP(model, auto_wrap_policy=p)",
    ],
)
def test_a_move_that_is_none_of_the_whole_model_before(tmp_path, lines):
    text = HEAD + f"def wrap(model, teacher, p):\n    {lines}\n    return model\n"
    assert found(tmp_path, text, "SCR107") == []


def test_notes_are_no_findings_of_their_own(tmp_path):
    from tests.diagnose.script.marked import findings

    text = HEAD + (
        "def wrap(model, p):\n"
        "    model = FSDP(model, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, auto_wrap_policy=p,\n"
        "                 sync_module_states=True)\n"
        "    return model\n"
    )
    assert [(one.code, str(one.problem.severity)) for one in findings(tmp_path, text)] == [
        ("SCR112", "note"),
        ("SCR111", "note"),
    ]
    assert (
        found(tmp_path, text.replace("model = FSDP", "with torch.device('meta'): model = FSDP"), "SCR111")
        == []
    )


def test_the_fix_is_what_pytorch_takes(tmp_path):
    text = HEAD + (
        "def wrap(model, p):\n"
        "    return FSDP(model, auto_wrap_policy=p, cpu_offload=True, sharding_strategy=ShardingStrategy.SHARD_FULL)\n"
    )
    mended = fix_of(tmp_path, text)
    assert "cpu_offload=CPUOffload(offload_params=True)" in mended.text
    assert "ShardingStrategy.FULL_SHARD)" in mended.text
    assert found(tmp_path, mended.text) == []


def test_a_configuration_with_a_strategy_that_is_none(tmp_path):
    from oomph.diagnose.script.engine import check_scripts

    path = tmp_path / "fsdp.yaml"
    path.write_text("fsdp_config:\n  fsdp_offload_params: false\n  fsdp_sharding_strategy: SHARD_FULL\n")
    (one,) = check_scripts([path]).findings
    assert (one.code, one.problem.evidence[0].line) == ("SCR101", 3)
    path.write_text("fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n")
    assert check_scripts([path]).findings == ()
    path.write_text("fsdp_config:\n  fsdp_sharding_strategy: 1\n")
    assert check_scripts([path]).findings == ()


def test_an_fsdp_of_another_library(tmp_path):
    text = """
    from elsewhere import ShardingConfig
    ShardingConfig(fsdp="megatron")
    """
    assert found(tmp_path, text) == []


def test_a_strategy_by_its_name_as_a_text(tmp_path):
    text = """
    from torch.distributed.fsdp import ShardingStrategy
    wrong = ShardingStrategy["SHARD_FULL"]  # SCR101
    right = ShardingStrategy["FULL_SHARD"], ShardingStrategy[name], {}["SHARD_FULL"]
    """
    assert found(tmp_path, text) == marked(text)
