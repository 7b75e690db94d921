"""How items are divided, and what is said of those that no task did."""

import json

import pytest

from oomph.errors import OomphError
from oomph.trial.engines.local import LocalEngine
from oomph.trial.fanout import shares
from oomph.trial.fanout.shares import Work, divided, results_of, work_folder


@pytest.mark.parametrize(
    ("sizes", "parts", "expected"),
    [
        ([5], 4, [[0]]),
        ([1, 1, 1, 1], 2, [[0, 2], [1, 3]]),
        # The largest alone, the others together: 10 against 4 + 3 + 2.
        ([4, 10, 3, 2], 2, [[1], [0, 2, 3]]),
        ([0, 0, 0], 3, [[0], [1], [2]]),
    ],
)
def test_shares_of_about_the_same_size(sizes, parts, expected):
    assert divided(sizes, parts) == expected


def test_results_come_back_in_the_order_of_the_items(tmp_path, monkeypatch):
    (tmp_path / "double.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom oomph.trial.fanout.shares import do_share\n"
        "do_share(Path(sys.argv[1]), lambda item, common: item * common['by'])\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said: list[str] = []
    engine = LocalEngine(2)
    with work_folder(engine) as folder:
        found = results_of(
            [1, 2, 3, 4, 5], [5, 4, 3, 2, 1], Work("double", {"by": 10}), engine, folder, said.append
        )
        assert len(list(folder.iterdir())) == 2
    engine.close()
    assert found == [10, 20, 30, 40, 50]
    assert said == []
    assert not folder.exists()


def test_no_items_need_no_task(tmp_path):
    assert results_of([], [], Work("never", {}), LocalEngine(2), tmp_path, pytest.fail) == []


def test_what_failed_is_said_once_for_each_reason(tmp_path, monkeypatch):
    (tmp_path / "some.py").write_text(
        "import json, sys\nfrom pathlib import Path\nfrom oomph.trial.fanout.shares import do_share\n"
        "items = json.loads((Path(sys.argv[1]) / 'share.json').read_text())['items']\n"
        "if 'dies' in items: sys.exit('no way')\n"
        "if 'silent' in items: sys.exit(0)\n"
        "do_share(Path(sys.argv[1]), lambda item, common: item)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said: list[str] = []
    engine = LocalEngine(3)
    with work_folder(engine) as folder:
        items = ["dies", "silent", "well"]
        found = results_of(items, [1, 1, 1], Work("some", {}), engine, folder, said.append)
    engine.close()
    assert found == [None, None, "well"]
    assert sorted(said) == [
        "1 of 3 files were not read by --engine local and are read here: a worker ended with exit code 1 (no way)",
        "1 of 3 files were not read by --engine local and are read here: a worker left no result",
    ]


def test_a_worker_runs_where_no_file_of_the_users_is_taken_for_a_module(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "same.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom oomph.trial.fanout.shares import do_share\n"
        "do_share(Path(sys.argv[1]), lambda item, common: item)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    engine = LocalEngine(1)
    with work_folder(engine) as folder:
        assert results_of([7], [1], Work("same", {}), engine, folder, pytest.fail) == [7]
        wanted = json.loads((folder / "share0" / shares.WANTED).read_text())
    engine.close()
    assert wanted == {"items": [7], "common": {}}


def test_an_interruption_ends_the_tasks(tmp_path, monkeypatch):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    class Interrupted(LocalEngine):
        pressed = False

        def finished(self, timeout):
            if not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt
            return super().finished(timeout)

    engine = Interrupted(2)
    with pytest.raises(KeyboardInterrupt), work_folder(engine) as folder:
        results_of([1, 2], [1, 1], Work("slow", {}), engine, folder, pytest.fail)
    assert not folder.exists()
    assert engine._running == {}
    engine.close()


def test_no_folder_can_be_made(monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with (
        pytest.raises(OomphError, match="Permission denied"),
        work_folder(LocalEngine(1)),
    ):
        pass
