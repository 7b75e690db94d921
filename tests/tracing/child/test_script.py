"""The script sees what Python itself would show it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oomph.tracing.child.request import Ending
from oomph.tracing.target import Kind, Target
from tests.tracing.child.harness import light, request_of

_SEEN = """
import json, os, sys
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "file": globals().get("__file__"), "name": __name__,
    "package": __package__, "spec": getattr(__spec__, "name", None), "main": main.__dict__ is globals(),
    "cwd": os.getcwd(), "doc": __doc__, "cached": globals().get("__cached__", 0),
}))
"""


def of_python(folder, *words):
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text('"""Text."""\n' + _SEEN)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text(_SEEN)
    (tmp_path / "link.py").symlink_to(tmp_path / "deep" / "train.py")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "mod.py").write_text(_SEEN)
    (tmp_path / "pkg" / "__main__.py").write_text(_SEEN)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "kind", "name"),
    [
        (["train.py", "--a", "1"], Kind.SCRIPT, "train.py"),
        (["deep/train.py"], Kind.SCRIPT, "deep/train.py"),
        (["link.py"], Kind.SCRIPT, "link.py"),
        (["-m", "pkg.mod", "x"], Kind.MODULE, "pkg.mod"),
        (["-m", "pkg"], Kind.MODULE, "pkg"),
        (["pkg"], Kind.SCRIPT, "pkg"),
        (["-c", _SEEN, "y"], Kind.CODE, _SEEN),
    ],
)
def test_as_python_runs_it(words, kind, name, folder):
    arguments = tuple(words[2:]) if words[0].startswith("-") else tuple(words[1:])
    target = Target(kind, name, arguments, program=name)
    outcome, printed, errors = light(request_of(folder, target=target))
    assert outcome.ending is Ending.FINISHED, errors
    seen, expected = json.loads(printed), of_python(folder, *words)
    if kind is Kind.CODE:  # Python's "" is where it stands
        expected["package"], seen["package"] = None, None
    if name == "pkg" and kind is Kind.SCRIPT:
        for each in (seen, expected):
            each["file"] = str(folder / each["file"])
    # `__cached__` names a file in __pycache__ where Python made one.
    seen.pop("cached"), expected.pop("cached")
    assert seen == expected


def test_a_function_gets_keywords_as_literals(folder):
    (folder / "mod.py").write_text("def go(batch, name, on=False):\n    print([batch, name, on])\n")
    target = Target(Kind.FUNCTION, "mod:go", keywords={"batch": "4", "name": "a-b", "on": "True"})
    outcome, printed, errors = light(request_of(folder, target=target))
    assert (outcome.ending, printed) == (Ending.FINISHED, "[4, 'a-b', True]\n"), errors


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nomodule:go", "no module nomodule"),
        ("mod:nothing", "has no nothing"),
        ("mod:number", "is no function"),
    ],
)
def test_a_function_that_is_not_there(name, why, folder):
    (folder / "mod.py").write_text("number = 1\n")
    outcome, _, errors = light(request_of(folder, target=Target(Kind.FUNCTION, name)))
    assert outcome.ending is Ending.REFUSED
    assert why in outcome.sentence
    assert errors == ""


def test_a_module_that_is_not_there(folder):
    outcome, _, _ = light(request_of(folder, target=Target(Kind.MODULE, "no.such")))
    assert outcome.ending is Ending.REFUSED
    assert "No module named 'no'" in outcome.sentence


def test_what_a_console_script_is(folder):
    target = Target(Kind.ENTRY, "oomph.cli.main:main", ("--version",), program="/usr/bin/oomph")
    outcome, printed, errors = light(request_of(folder, target=target))
    assert outcome.ending is Ending.FINISHED, errors
    assert printed.startswith("oomph ")


def test_processes_can_be_spawned_from_the_script(folder):
    source = """
    import multiprocessing
    def work(x):
        return x + 1
    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(work, [1, 2]))
    """
    outcome, printed, errors = light(request_of(folder, source))
    assert (outcome.ending, printed) == (Ending.FINISHED, "[2, 3]\n"), errors
