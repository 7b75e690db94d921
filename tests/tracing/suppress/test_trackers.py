"""Trackers and the hub, as stand-ins for libraries that need not be installed: modules that fail when they are used."""

from __future__ import annotations

import pickle

from oomph.tracing.child.request import Ending
from tests.tracing.child.harness import light, request_of


def played(folder, source):
    """(outcome, what was listed, what was printed) of a script under the suppression, without torch."""
    outcome, printed, errors = light(request_of(folder, source), LIGHT_SUPPRESS="1")
    assert outcome.ending is Ending.FINISHED, errors
    found = pickle.loads((folder / "out.pickle").read_bytes())["oomph"]  # noqa: S301 - written by the test
    return found["suppressed"], printed


def test_mlflow_and_others_take_everything(tmp_path):
    (tmp_path / "mlflow.py").write_text(
        "def start_run(*a, **k):\n    raise OSError('no server')\nset_tracking_uri = log_metric = start_run\n"
        "other = 5\n"
    )
    (tmp_path / "tensorboardX.py").write_text(
        "class SummaryWriter:\n    def __init__(self, d):\n        open(d, 'w')\n"
    )
    (tmp_path / "clearml.py").write_text(
        "class Task:\n    @staticmethod\n    def init(**k):\n        raise OSError\n"
    )
    source = """
    import mlflow, tensorboardX
    from clearml import Task
    mlflow.set_tracking_uri("http://server")
    with mlflow.start_run(run_name="a") as run:
        mlflow.log_metric("loss", 1.0)
        print(bool(run.info.run_id), mlflow.other)
    class Mine(tensorboardX.SummaryWriter):
        pass
    writer = Mine("logs")
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    print(writer.log_dir)
    task = Task.init(project_name="p")
    task.get_logger().report_scalar("a", "b", 1, 2)
    """
    listed, printed = played(tmp_path, source)
    assert listed == ["log to mlflow", "log to TensorBoard in logs", "log to clearml"]
    assert printed == "True 5\nlogs\n"
    assert not (tmp_path / "logs").exists()


def test_wandb_is_asked_to_be_disabled_whatever_the_script_says(tmp_path):
    (tmp_path / "wandb.py").write_text("def init(project=None, mode='online'):\n    print(project, mode)\n")
    listed, printed = played(tmp_path, "import wandb\nwandb.init('p', mode='online')\n")
    assert (listed, printed) == (["log to wandb"], "p disabled\n")


def test_the_hub_gets_nothing(tmp_path):
    package = tmp_path / "huggingface_hub"
    package.mkdir()
    (package / "hf_api.py").write_text(
        "class HfApi:\n    def create_repo(self, repo_id, **k):\n        raise OSError\n"
        "    def upload_folder(self, **k):\n        raise OSError\n    def whoami(self):\n        return 'me'\n"
        "api = HfApi()\ncreate_repo = api.create_repo\nupload_folder = api.upload_folder\n"
    )
    (package / "__init__.py").write_text(
        "from huggingface_hub.hf_api import HfApi, create_repo, upload_folder\n"
    )
    source = """
    from huggingface_hub import HfApi, create_repo, upload_folder
    url = create_repo("me/model", private=True)
    print(url, url.repo_id, HfApi().whoami())
    upload_folder(repo_id="me/model", folder_path="out")
    HfApi().upload_folder(repo_id="me/other", folder_path="out")
    """
    listed, printed = played(tmp_path, source)
    assert printed == "https://huggingface.co/me/model me/model me\n"
    assert listed == [
        "create repo on the Hugging Face hub: me/model",
        "upload folder on the Hugging Face hub: me/model",
        "upload folder on the Hugging Face hub: me/other",
    ]


def test_a_script_that_writes_logs_and_reads_them(tmp_path):
    source = """
    import json, logging, os
    logging.basicConfig(filename="train.log", level="INFO")
    logging.info("begun")
    os.makedirs("out", exist_ok=True)
    json.dump({"a": 1}, open("out/config.json", "w"))
    print(json.load(open("out/config.json")), os.path.getsize("train.log") > 0)
    """
    listed, printed = played(tmp_path, source)
    assert printed == "{'a': 1} True\n"
    assert listed == ["write train.log", "write out/config.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.pickle",
        "outcome.json",
        "request.json",
        "train.py",
    ]


def test_what_exit_handlers_write_stays_inside_too(tmp_path):
    source = """
    import atexit, pathlib
    atexit.register(lambda: pathlib.Path("late.txt").write_text("late"))
    """
    listed, _ = played(tmp_path, source)
    assert listed == ["write late.txt"]
    assert not (tmp_path / "late.txt").exists()
