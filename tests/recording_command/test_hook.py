"""Scripts that record themselves without a change, and everything that must not change by it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oomph.recording.command.hook import FOLDER, with_hook

PROBE = "import sys\nprint(sorted(name for name in sys.modules if name.startswith('oomph')))\n"


@pytest.fixture
def site(tmp_path):
    """A folder of modules: a `torch` that costs nothing, and an `oomph.auto` that tells that it was started."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import torch.inner\nready = True\n")
    (tmp_path / "torch" / "inner.py").write_text("")
    (tmp_path / "oomph").mkdir()
    (tmp_path / "oomph" / "__init__.py").write_text("")
    (tmp_path / "oomph" / "auto.py").write_text("import torch\nprint('started', torch.ready)\n")
    return tmp_path


def run(site, *words: str, run_dir: str = "/somewhere", **variables: str) -> str:
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    given = {**with_hook(given), "OOMPH_RUN_DIR": run_dir, **variables}
    done = subprocess.run(
        [sys.executable, *words], env=given, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_it_starts_when_torch_has_been_imported_and_not_before(site):
    assert run(site, "-c", "print(1)") == "1\n"
    assert run(site, "-c", "print(1); import torch; print(torch.ready)") == "1\nstarted True\nTrue\n"


def test_torch_is_as_it_would_be(site):
    code = (
        "import sys, torch\n"
        "print(torch.__spec__.loader.__dict__.keys() == torch.inner.__spec__.loader.__dict__.keys(), torch.__file__)\n"
        "print([type(one).__name__ for one in sys.meta_path if '_Waiting' in type(one).__name__])\n"
    )
    lines = run(site, "-c", code).splitlines()
    assert lines[1:] == [f"True {site / 'torch' / '__init__.py'}", "[]"]


def test_the_path_is_as_it_would_be(site):
    code = "import sys\nprint([p for p in sys.path if 'oomph' in p and 'hook' in p])\n"
    assert run(site, "-c", code) == "[]\n"


def test_a_sitecustomize_that_was_there_runs(site):
    (site / "sitecustomize.py").write_text("import sys\nsys.path.append('/added')\nthere = 5\n")
    code = "import sys, sitecustomize\nprint(sitecustomize.there, sys.path[-1])\nimport torch"
    assert run(site, "-c", code) == "5 /added\nstarted True\n"


def test_one_that_fails_fails_as_it_would(site):
    (site / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    given = {**with_hook({"PYTHONPATH": str(site)}), "OOMPH_RUN_DIR": "/somewhere"}
    words = [sys.executable, "-c", "import torch"]
    done = subprocess.run(words, env=given, capture_output=True, text=True, timeout=60, check=False)
    plain = subprocess.run(
        words, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert "ValueError: mine" in plain.stderr
    assert "ValueError: mine" in done.stderr
    assert (done.returncode, done.stdout) == (plain.returncode, "started True\n")


@pytest.mark.parametrize("name", ["torchrun", "accelerate", "deepspeed"])
def test_launchers_are_left_alone(site, name):
    (site / name).write_text("import torch\nprint('launched')\n")
    assert run(site, str(site / name)) == "launched\n"


def test_a_launcher_as_a_module_is_left_alone(site):
    (site / "torch" / "distributed").mkdir()
    (site / "torch" / "distributed" / "__init__.py").write_text("")
    (site / "torch" / "distributed" / "run.py").write_text("print('launched')\n")
    assert run(site, "-m", "torch.distributed.run") == "launched\n"


def test_a_script_and_a_module_are_ranks(site):
    (site / "train.py").write_text("import torch\n")
    assert run(site, str(site / "train.py"), "--flag") == "started True\n"
    assert run(site, "-m", "train") == "started True\n"


def test_workers_of_multiprocessing_are_left_alone(site):
    (site / "main.py").write_text(
        "import multiprocessing\n"
        "def work():\n    import torch\n    print('worker', flush=True)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    process.start(); process.join()\n"
    )
    assert run(site, str(site / "main.py")) == "worker\n"


def test_turned_off_and_without_a_run(site):
    assert run(site, "-c", "import torch", OOMPH_AUTO="0") == ""
    assert run(site, "-c", "import torch", run_dir="") == ""


def test_a_python_without_oomph_says_nothing(site):
    (site / "oomph" / "auto.py").write_text("raise ImportError('no msgspec')\n")
    assert run(site, "-c", "import torch; print(torch.ready)") == "True\n"


def test_a_torch_that_is_not_there_is_not_there(site):
    for file in (site / "torch").iterdir():
        file.unlink()
    (site / "torch").rmdir()
    code = "try:\n    import torch\nexcept ImportError as error:\n    print(error.name)\n"
    assert run(site, "-S", "-c", code) == "torch\n"


def test_isolated_pythons_are_left_alone(site):
    assert run(site, "-I", "-c", PROBE) == "[]\n"


def test_the_folder_holds_one_module():
    assert [one.name for one in FOLDER.iterdir() if one.name != "__pycache__"] == ["sitecustomize.py"]


def test_a_path_that_was_not_set_gets_no_empty_entry():
    assert with_hook({})["PYTHONPATH"] == str(FOLDER)
    assert with_hook({"PYTHONPATH": "/a"})["PYTHONPATH"] == f"{FOLDER}{os.pathsep}/a"
