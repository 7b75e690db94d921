"""What --param means, and how a command looks with a setting in it."""

from __future__ import annotations

import json

import pytest
import yaml

from oomph.errors import InputError, UsageError
from oomph.trial.command import Template, unset
from oomph.trial.configs import changed
from oomph.trial.params import parse_param, parse_params


@pytest.mark.parametrize(
    ("text", "values", "ordered"),
    [
        ("batch=4:1", (4, 3, 2, 1), True),
        ("seq=8192:512", (8192, 4096, 2048, 1024, 512), True),
        ("seq=8192:4096:2048", (8192, 6144, 4096), True),
        ("seq=1000:600", (1000, 600), True),  # the half of 1000 is below 600
        ("batch=8,4,2,1", (8, 4, 2, 1), True),
        ("thing=8,4,2,1", (8, 4, 2, 1), False),  # nothing says that memory falls with it
        ("batch=1,2,4", (1, 2, 4), False),
        ("gradient_accumulation_steps=1,2", (1, 2), False),
        ("opt=adamw|sgd", ("adamw", "sgd"), False),
        ("lr=0.1,0.01", (0.1, 0.01), False),
        ("ranks=08,04", ("08", "04"), False),
    ],
)
def test_values(text, values, ordered):
    found = parse_param(text)
    assert (found.values, found.ordered) == (values, ordered)
    assert bool(found.why_ordered) is ordered


@pytest.mark.parametrize(
    ("text", "name", "kind", "target"),
    [
        ("batch=2:1", "batch", "placeholder", "batch"),
        ("--train_batch_size=2:1", "train_batch_size", "argument", "--train_batch_size"),
        ("train.batch=2:1", "train.batch", "argument", "train.batch"),
        ("env:PYTORCH_CUDA_ALLOC_CONF=|a:b,c:d", "PYTORCH_CUDA_ALLOC_CONF", "environment", "PYTORCH_CUDA_ALLOC_CONF"),
        ("conf/a=b.yaml:train.batch=2:1", "train.batch", "file", "conf/a=b.yaml:train.batch"),
    ],
)  # fmt: skip
def test_kinds(text, name, kind, target):
    found = parse_param(text)
    assert (found.name, found.kind, found.target) == (name, kind, target)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([], "--param batch=8:1"),
        (["--=8:1"], "--param --: not a name"),
        (["-=8:1"], "--param -: not a name"),
        (["batch"], "NAME=VALUES"),
        (["batch=1:8"], "8:1"),
        (["batch=8"], "at least two values"),
        (["batch=8,8"], "each value once"),
        (["opt=a|"], "empty"),
        (["batch=8:1:9"], "step"),
        (["batch=8:1", "batch=4:1"], "twice"),
        (["env:1A=a|b"], "no name"),
        (["a b=1,2"], "not a name"),
        (["seq=100000:1:1"], "larger step"),
    ],
)
def test_what_makes_no_sense(texts, says):
    with pytest.raises(UsageError, match=says):
        parse_params(texts)


def made(tmp_path, params, *command, environment=None, **setting):
    template = Template(tuple(command), parse_params(params), environment or {}, tmp_path)
    template.check()
    given = {one.name: setting.get(one.name, one.values[0]) for one in template.variables}
    return template.made(given, tmp_path / "trial")


def test_placeholders_in_words_and_variables_only_where_they_are_named(tmp_path):
    code = "print(f'{x}', {'batch': 1})"
    words, environment = made(
        tmp_path, ["batch=8:1"], "python", "-c", code, "--n={batch}x2", "{batch}",
        environment={"SIZE": "{batch}"}, batch=4,
    )  # fmt: skip
    assert words == ("python", "-c", code, "--n=4x2", "4")
    assert environment == {"SIZE": "4"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("t.py", "--bs", "8", "x"), ("t.py", "--bs", "4", "x")),
        (("t.py", "--bs=8"), ("t.py", "--bs=4")),
        (("t.py", "--lr", "1"), ("t.py", "--lr", "1", "--bs", "4")),
        (("t.py", "--bs", "1", "--bs", "8"), ("t.py", "--bs", "1", "--bs", "4")),
    ],
)
def test_arguments(tmp_path, command, expected):
    assert made(tmp_path, ["--bs=8:1"], *command, bs=4)[0] == expected


def test_spellings_of_one_argument(tmp_path):
    words, _ = made(tmp_path, ["--batch_size=8:1"], "t.py", "--batch-size", "8", batch_size=2)
    assert words == ("t.py", "--batch-size", "2")


def test_hydra(tmp_path):
    words, _ = made(
        tmp_path, ["train.bs=8:1", "opt=a|b"], "t.py", "train.bs=8", "opt=a", **{"train.bs": 2, "opt": "b"}
    )
    assert words == ("t.py", "train.bs=2", "opt=b")


def test_environment_and_what_is_not_set(tmp_path):
    variables = parse_params(["env:CONF=|x:True"])
    template = Template(("t.py",), variables, {}, tmp_path)
    assert unset(variables, {"CONF": ""}) == ("CONF",)
    assert unset(variables, {"CONF": "x:True"}) == ()
    assert template.made({"CONF": "x:True"}, tmp_path)[1] == {"CONF": "x:True"}


@pytest.mark.parametrize(
    ("params", "command", "says"),
    [
        (["seq=8:1"], ("t.py", "{batch}", "{seq}"), "--param batch=VALUES"),
        (["batch=8:1"], ("t.py",), "used nowhere"),
        (["train.bs=8:1"], ("t.py", "--bs", "8"), "used nowhere"),
        (["no.yaml:bs=8:1"], ("t.py",), "does not name no.yaml"),
    ],
)
def test_what_is_not_used(tmp_path, params, command, says):
    with pytest.raises(UsageError, match=says):
        Template(command, parse_params(params), {}, tmp_path).check()


def test_a_value_that_is_not_the_jobs_own_is_remarked(tmp_path):
    notes = Template(("t.py", "--bs", "16"), parse_params(["--bs=8:1"]), {}, tmp_path).check()
    assert "--bs 16" in notes[0]


def test_a_copy_of_a_file_takes_its_place(tmp_path):
    (tmp_path / "c.yaml").write_text("# mine\ntrain: {batch: 8, seq: &s 64}\nother: *s\n")
    words, _ = made(
        tmp_path, ["c.yaml:train.batch=8:1", "c.yaml:train.seq=64,32"], "t.py", "--config=c.yaml",
        **{"train.batch": 2, "train.seq": 32},
    )  # fmt: skip
    copy = tmp_path / "trial" / "config" / "c.yaml"
    assert words == ("t.py", f"--config={copy}")
    assert copy.read_text() == "# mine\ntrain: {batch: 2, seq: &s 32}\nother: *s\n"
    assert (tmp_path / "c.yaml").read_text().startswith("# mine\ntrain: {batch: 8")


YAML = "a:\n  b: 8  # eight\n  list:\n    - c: 1\n    - c: 'two'\nempty:\n"


@pytest.mark.parametrize(
    ("key", "value", "at"),
    [("a.b", 4, lambda y: y["a"]["b"]), ("a.list.1.c", "x: #y", lambda y: y["a"]["list"][1]["c"])],
)
def test_yaml(tmp_path, key, value, at):
    path = tmp_path / "c.yml"
    path.write_text(YAML)
    text = changed(path, key, value)
    assert at(yaml.safe_load(text)) == value
    assert "# eight" in text


def test_json(tmp_path):
    path = tmp_path / "c.json"
    path.write_text('{"train_batch_size": 8, "zero": {"stage": 3}}')
    assert json.loads(changed(path, "zero.stage", 2)) == {"train_batch_size": 8, "zero": {"stage": 2}}


def test_toml(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        'batch = 1 # top\n[train]\nbatch = 8 # mine\n[eval]\nbatch = 8\n[train.inner]\nname = "a"\n'
    )
    text = changed(path, "train.batch", 4)
    assert text.startswith("batch = 1 # top\n[train]\nbatch = 4\n[eval]\nbatch = 8\n")
    assert 'name = "b"' in changed(path, "train.inner.name", "b")


@pytest.mark.parametrize("name", ["c.yaml", "c.json", "c.toml"])
def test_keys_and_files_that_are_not_there(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(InputError, match="cannot be read"):
        changed(path, "a", 1)
    path.write_text({"c.yaml": "a: {b: 1}", "c.json": '{"a": {"b": 1}}', "c.toml": "[a]\nb = 1\n"}[name])
    for key in ("x", "a", "a.x", "a.b.c"):
        with pytest.raises(UsageError, match="has no key"):
            changed(path, key, 1)
    path.write_text("[[[" if name != "c.toml" else "= 1")
    with pytest.raises(InputError, match="not valid"):
        changed(path, "a", 1)
