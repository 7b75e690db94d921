import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.errors import InputError
from oomph.evidence.script import Config, Script, read_script
from oomph.evidence.script.variables import variables_of


def test_names_are_followed_through_imports(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import torch.nn as nn\nfrom torch import cuda\ncuda.empty_cache()\nnn.Linear(1, 2)\n")
    script = read_script(path)
    assert isinstance(script, Script)
    assert [script.line(call) for call in script.called("torch.cuda.empty_cache")] == [3]
    assert [script.code(call) for call in script.called("torch.nn.Linear")] == ["nn.Linear(1, 2)"]


def test_columns_are_bytes(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("name = 'größe'; value = f('→')\n", encoding="utf-8")
    script = read_script(path)
    assert [script.code(call) for call in script.calls] == ["f('→')"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.py", b"def f(:\n", "line 1"),
        ("a.py", b"print 'python 2'\n", "Python 3"),
        ("a.py", b"", "empty"),
        ("a.py", b"\x00\x01\x02", "binary"),
        ("a.yaml", b"a: [1, 2\nb: }", "no YAML"),
        ("a.json", b"[]", "no settings"),
        ("a.ipynb", b"{}", "no notebook"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_script(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_script(tmp_path / "none.py")
    with pytest.raises(InputError, match="folder"):
        read_script(tmp_path)


def test_a_notebook_keeps_its_cells(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n"]},
        {"cell_type": "code", "source": ["%pip install torch\n", "import torch\n", "!nvidia-smi"]},
        {"cell_type": "code", "source": "%%bash\necho hi"},
        {"cell_type": "code", "source": "if True:\n    %time x = 1\n    torch.cuda.memory_summary()"},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    script = read_script(path)
    assert isinstance(script, Script)
    (call,) = script.called("torch.cuda.memory_summary")
    quote = script.quote(call)
    assert (quote.source, quote.line) == (f"{path} cell 4", 3)


def test_a_configuration_has_lines(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a:\n  b: 1\n  c: [x, {d: true}]\n")
    config = read_script(path)
    assert isinstance(config, Config)
    assert config.values == (("a.b", 1, 2), ("a.c[0]", "x", 3), ("a.c[1].d", True, 3))


def test_a_billion_laughs(tmp_path):
    path = tmp_path / "a.yaml"
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    path.write_text("\n".join(lines))
    config = read_script(path)
    assert isinstance(config, Config)
    assert len(config.values) < 100


def test_variables_of_a_script(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        "import os\n"
        "from os import environ\n"
        "os.environ['A'] = '1'\n"
        "environ['B'] = str(2)\n"
        "os.environ.setdefault('C', x)\n"
        "os.environ.update({'D': '4'}, E='5')\n"
        "os.environ |= {'F': '6'}\n"
        "other['G'] = '7'\n"
    )
    script = read_script(path)
    assert isinstance(script, Script)
    assert [(one.name, one.value, one.quote.line) for one in variables_of(script)] == [
        ("A", "1", 3),
        ("B", "2", 4),
        ("C", None, 5),
        ("D", "4", 6),
        ("E", "5", 6),
        ("F", "6", 7),
    ]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["a.py", "a.yaml", "a.json", "a.ipynb", "train"]))
def test_no_file_makes_it_fail_otherwise(tmp_path_factory, data, name):
    from oomph.diagnose.script.engine import check_scripts

    path = tmp_path_factory.mktemp("scripts") / name
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        check_scripts([path])
