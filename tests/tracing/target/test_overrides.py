from __future__ import annotations

import pytest

from oomph.errors import UsageError
from oomph.tracing.target import Kind, Target, override


def apply(line, *settings, program="train.py"):
    target = Target(Kind.SCRIPT, "train.py", tuple(line.split()), program=program)
    return " ".join(override(target, settings).arguments)


@pytest.mark.parametrize(
    ("line", "setting", "expected"),
    [
        ("--batch 8 --lr 1", "batch=4", "--batch 4 --lr 1"),
        ("--batch=8", "batch=4", "--batch=4"),
        ("--batch-size 8", "batch_size=4", "--batch-size 4"),
        ("--batch_size 8", "--batch-size=4", "--batch_size 4"),
        ("--lr 1", "batch=4", "--lr 1 --batch 4"),
        ("--batch 8 --batch 9", "batch=4", "--batch 4 --batch 4"),
        ("--lr -1 --x", "lr=-2", "--lr -2 --x"),
        ("-b 8", "b=4", "-b 4"),
        ("", "b=4", "-b 4"),
        ("--ckpt --x 1", "ckpt=false", "--x 1"),
        ("--ckpt --x 1", "ckpt=true", "--ckpt --x 1"),
        ("--ckpt --x 1", "ckpt=none", "--ckpt none --x 1"),
        ("--x 1", "ckpt", "--x 1 --ckpt"),
        ("--name a=b", "name=c=d", "--name c=d"),
        ("model=llama train.batch=8", "train.batch=4", "model=llama train.batch=4"),
        ("+x=1", "x=2", "+x=2"),
        ("--config c.yaml", "batch=4", "--config c.yaml --batch 4"),
    ],
)
def test_the_scripts_own_flags(line, setting, expected):
    assert apply(line, setting) == expected


def test_several_settings_in_order():
    assert apply("--a 1", "a=2", "b=3", "a=4") == "--a 4 -b 3"


def test_commands_that_take_bare_words():
    assert apply("run x --config c", "batch_size=2", program="/bin/tune") == "run x --config c batch_size=2"


@pytest.mark.parametrize(
    ("line", "setting", "why"),
    [
        ("--betas 0.9 0.95", "betas=1", "not certain"),
        ("--batch 8", "batch", "give one"),
        ("x=1", "x", "give one"),
        ("args.json", "batch=4", "args.json"),
        ("", "=4", "write key=value"),
        ("", "a b=4", "write key=value"),
    ],
)
def test_what_is_not_certain_is_refused(line, setting, why):
    with pytest.raises(UsageError, match=why):
        apply(line, setting)


def test_a_functions_keywords():
    target = override(Target(Kind.FUNCTION, "m:f"), ["batch=4", "use-ema"])
    assert target.keywords == {"batch": "4", "use_ema": "True"}
    assert target.arguments == ()
