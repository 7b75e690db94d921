"""The fingerprint: each source by what it reads, secrets by what it must not keep."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import hashlib
import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.evidence.run.model import Fingerprint
from oomph.recording.fingerprint import fingerprint, write
from oomph.recording.fingerprint.arguments import of_command_line
from oomph.recording.fingerprint.environment import environment
from oomph.recording.fingerprint.found import Found
from oomph.recording.fingerprint.git import git
from oomph.recording.fingerprint.git_index import Index, read_index
from oomph.recording.fingerprint.secrets import MASKED, masked, masked_command
from oomph.recording.fingerprint.versions import installed


def test_everything_is_put_together_and_written(tmp_path):
    record = fingerprint(
        "org/model",
        {"per_device_train_batch_size": 4, "seed": 7, "hub_token": "hf_" + "a" * 30},
        rank=3,
        command=["train.py", "--x"],
        environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "HOME": "/home/mira"},
        root=tmp_path,
        script=tmp_path,
        device_name="NVIDIA A100-SXM4-40GB",
        capacity_bytes=42_000_000_000,
        more={"model.note": "mine"},
        seconds=5,
    )
    assert record.values["model.id"] == "org/model"
    assert record.values["arguments.per_device_train_batch_size"] == "4"
    assert record.values["arguments.hub_token"] == MASKED
    assert record.values["seed"] == "7"
    assert record.values["command"] == "train.py --x"
    assert record.values["environment.PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert record.values["gpu.known_as"] == "a100-40gb"
    assert record.values["model.note"] == "mine"
    assert "environment.HOME" not in record.values
    assert "git.commit" in record.missing
    assert "model.weights" in record.missing
    path = write(record, tmp_path / "run")
    assert path == tmp_path / "run" / "fingerprint" / "rank-00003.json"
    assert msgspec.json.decode(path.read_bytes(), type=Fingerprint) == record
    assert [each.name for each in path.parent.iterdir()] == ["rank-00003.json"]


def test_another_rank_is_short():
    record = fingerprint(arguments={"a": 1}, rank=1, whole=False, environment={"RANK": "1"}, command=["x"])
    assert record.values["environment.RANK"] == "1"
    assert not [name for name in record.values if name.startswith(("arguments.", "versions.", "git."))]


def test_nothing_raises():
    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __str__(self):
            raise ValueError("no")

    record = fingerprint(Hostile(), {"x": Hostile(), "y": 1}, Hostile(), command=["x"], environment={})
    assert record.values["arguments.y"] == "1"
    assert "model" in record.missing or "model.id" in record.missing


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("arguments.hub_token", "abc", MASKED),
        ("arguments.api_key", "abc", MASKED),
        ("environment.AWS_SECRET_ACCESS_KEY", "x", MASKED),
        ("arguments.max_new_tokens", "128", "128"),
        ("arguments.tokenizer", "gpt2", "gpt2"),
        ("arguments.hub_token", "None", "None"),
        ("arguments.pad_token", "<pad>", "<pad>"),
        ("arguments.note", "use hf_" + "Q" * 34, f"use {MASKED}"),
        ("arguments.url", "https://mira:pw@host/x", f"https://{MASKED}@host/x"),
        ("arguments.x", "AKIA" + "A" * 16, MASKED),
        (
            "git.commit",
            "0123456789abcdef0123456789abcdef01234567",
            "0123456789abcdef0123456789abcdef01234567",
        ),
        ("arguments.wandb", "0123456789abcdef0123456789abcdef01234567", MASKED),
    ],
)
def test_secrets(name, value, kept):
    assert masked(name, value) == kept


def test_a_command_keeps_its_options_but_not_secrets():
    assert masked_command("train.py --hub-token abc --api_key=xyz --max-tokens 12") == (
        f"train.py --hub-token {MASKED} --api_key={MASKED} --max-tokens 12"
    )


def test_environment_is_an_allow_list():
    found = Found()
    environment(
        found,
        {
            "NCCL_BUFFSIZE": "8388608",
            "HF_TOKEN": "secret",
            "HF_HOME": "/data",
            "WORLD_SIZE": "8",
            "SLURM_JOB_ID": "17",
            "PATH": "/bin",
            "DATABASE_URL": "x",
            "TORCH_API_KEY": "x",
            "OOMPH_RUN_DIR": "x",
        },
    )
    assert found.values == {
        "environment.NCCL_BUFFSIZE": "8388608",
        "environment.HF_HOME": "/data",
        "environment.WORLD_SIZE": "8",
        "environment.SLURM_JOB_ID": "17",
    }


def test_versions_come_from_the_names_of_metadata(tmp_path):
    (tmp_path / "torch-2.6.0+cu124.dist-info").mkdir()
    (tmp_path / "flash_attn-2.7.4.dist-info").mkdir()
    assert installed([str(tmp_path), str(tmp_path / "none")]) == {
        "torch": "2.6.0+cu124",
        "flash-attn": "2.7.4",
    }


def test_versions_agree_with_importlib():
    from importlib.metadata import version

    there = installed()
    assert {name: there[name] for name in ("torch", "transformers", "msgspec")} == {
        name: version(name) for name in ("torch", "transformers", "msgspec")
    }


class Way(enum.Enum):
    FULL = "full"


@dataclasses.dataclass
class Arguments:
    lr: float = 1e-4
    way: Way = Way.FULL
    inner: dict[str, int] = dataclasses.field(default_factory=lambda: {"r": 8})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Arguments(), {"lr": "0.0001", "way": "full", "inner.r": "8"}),
        (argparse.Namespace(lr=1, deep=argparse.Namespace(x=2)), {"lr": "1", "deep.x": "2"}),
        ({"a": {"b": {"c": True}}, "empty": {}}, {"a.b.c": "True", "empty": "{}"}),
        ([Arguments(), {"b": 2}], {"lr": "0.0001", "way": "full", "inner.r": "8", "b": "2"}),
        (["--lr", "1"], {"lr": "1"}),
    ],
)
def test_arguments_of_any_kind(given, expected):
    values = fingerprint(arguments=given, command=["x"], environment={}).values
    assert {
        key.removeprefix("arguments."): value for key, value in values.items() if "arguments." in key
    } == expected


def test_training_arguments_of_transformers(tmp_path):
    from transformers import TrainingArguments

    given = TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=3, hub_token="hf_" + "x" * 30
    )
    values = fingerprint(arguments=given, command=["x"], environment={}, seconds=5).values
    assert values["arguments.per_device_train_batch_size"] == "3"
    assert values["arguments.optim"] == given.optim.value
    assert values["seed"] == "42"
    assert "x" * 30 not in json.dumps(values)


def test_a_command_line():
    argv = [
        "--lr",
        "1e-4",
        "--bf16",
        "--model=gpt2",
        "training.steps=3",
        "in.txt",
        "--tag",
        "a",
        "b",
        "--tag",
        "c",
    ]
    assert of_command_line(argv) == {
        "lr": "1e-4",
        "bf16": "True",
        "model": "gpt2",
        "training.steps": "3",
        "0": "in.txt",
        "tag": "a b, c",
    }


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT asks for the old name
def test_a_model_with_adapters():
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=1, n_head=2, n_embd=8, vocab_size=32, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config)
    whole = sum(each.numel() for each in model.parameters())
    wrapped = get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
    values = fingerprint(wrapped, command=["x"], environment={}, seconds=5).values
    # c_attn is 8 x 24: A has 2 x 8 elements, B 24 x 2.
    assert values["model.trainable"] == str(2 * 8 + 24 * 2)
    assert values["model.parameters"] == str(whole + 2 * 8 + 24 * 2)
    assert values["model.n_embd"] == "8"
    assert values["model.adapter.default.r"] == "2"
    assert values["model.dtypes"] == f"float32 {whole + 64}"


def test_weights_are_known_by_their_headers(tmp_path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    first = fingerprint(str(tmp_path), command=["x"], environment={}, seconds=5).values["model.weights"]
    other = header.replace(b"F32", b"F16")
    file.write_bytes(len(other).to_bytes(8, "little") + other + b"\0" * 4)
    second = fingerprint(str(tmp_path), command=["x"], environment={}, seconds=5).values["model.weights"]
    assert first != second
    file.write_bytes(b"\xff" * 20)
    assert "model.weights" in fingerprint(str(tmp_path), command=["x"], environment={}, seconds=5).missing


def test_data(tmp_path):
    from datasets import Dataset

    rows = Dataset.from_dict({"text": ["a", "b"]})
    values = fingerprint(data={"train": rows}, command=["x"], environment={}, seconds=5).values
    assert values["data.train.fingerprint"] == rows._fingerprint
    assert values["data.train.rows"] == "2"
    file = tmp_path / "data.jsonl"
    file.write_text("one\n")
    record = fingerprint(data=file, command=["x"], environment={}, seconds=5)
    content = hashlib.sha256(b"one\n").digest()
    expected = hashlib.sha256(b"data.jsonl\0" + b"4\0" + content).hexdigest()[:32]
    assert record.values["data.fingerprint"] == f"sha256:{expected} (whole)"
    assert fingerprint(data=str(tmp_path / "none"), command=["x"], environment={}).missing["data.fingerprint"]


def run_git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=m", "-c", "user.email=m@x", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={"HOME": str(folder)},
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("x = 1\n")
    (folder / "a").mkdir()
    (folder / "a" / "b.py").write_text("y = 1\n")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "first")
    return folder


def of_git(folder: Path) -> Found:
    found = Found(5)
    git(found, folder)
    return found


def test_git_is_read_without_git(checkout):
    found = of_git(checkout / "a")
    assert found.values["git.commit"] == run_git(checkout, "rev-parse", "HEAD")
    assert found.values["git.branch"] == "main"
    assert found.values["git.dirty"] == "no"
    (checkout / "train.py").touch()  # another time, the same content
    assert of_git(checkout).values["git.dirty"] == "no"
    (checkout / "train.py").write_text("x = 2\n")
    changed = of_git(checkout).values
    assert changed["git.dirty"] == "yes"
    assert changed["git.changed"].endswith(": train.py")
    (checkout / "train.py").write_text("x = 3\n")
    assert of_git(checkout).values["git.changed"] != changed["git.changed"]


def test_git_deleted_staged_detached_packed(checkout):
    (checkout / "a" / "b.py").unlink()
    assert of_git(checkout).values["git.dirty"] == "yes"
    run_git(checkout, "checkout", "-q", "--", "a/b.py")
    (checkout / "new.py").write_text("z = 1\n")
    assert of_git(checkout).values["git.dirty"] == "no"  # git does not track it
    run_git(checkout, "add", "new.py")
    staged = of_git(checkout)
    assert staged.values.get("git.dirty") != "no"
    run_git(checkout, "commit", "-q", "-m", "second")
    run_git(checkout, "pack-refs", "--all")
    run_git(checkout, "gc", "-q")
    head = run_git(checkout, "rev-parse", "HEAD")
    assert of_git(checkout).values["git.commit"] == head
    run_git(checkout, "checkout", "-q", "--detach")
    assert of_git(checkout).values["git.commit"] == head
    run_git(checkout, "update-index", "--index-version", "4")
    (checkout / "a" / "b.py").write_text("other\n")
    assert of_git(checkout).values["git.changed"].endswith(": a/b.py")
    (checkout / ".git" / "index").write_bytes(b"DIRC\0\0")
    assert "git.dirty" in of_git(checkout).missing


@given(st.binary(max_size=300), st.integers(2, 4), st.integers(0, 5))
def test_any_index_of_git_is_read_or_refused(tmp_path_factory, content, version, count):
    path = tmp_path_factory.mktemp("index", numbered=True) / "index"
    path.write_bytes(b"DIRC" + version.to_bytes(4, "big") + count.to_bytes(4, "big") + content)
    assert isinstance(read_index(path, Found(5)), (str, Index))


@given(
    st.dictionaries(st.text(max_size=30), st.one_of(st.text(), st.integers(), st.none(), st.lists(st.text())))
)
def test_any_arguments_are_one_line_of_text(given_arguments):
    record = fingerprint(
        arguments=given_arguments, command=["x"], environment={}, whole=True, script="/", root="/none"
    )
    for name, value in record.values.items():
        assert "\n" not in name + value
        assert len(value) <= 500
        (name + value).encode()


def test_machine_by_files(tmp_path):
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "sys_vendor").write_text("Amazon EC2\n")
    (dmi / "product_name").write_text("p4d.24xlarge\n")
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
    )
    gpu = tmp_path / "proc/driver/nvidia/gpus/0000:10:1c.0"
    gpu.mkdir(parents=True)
    (gpu / "information").write_text("Model: \t\t NVIDIA A100-SXM4-40GB\nGPU UUID: \t GPU-1\n")
    values = fingerprint(root=tmp_path, command=["x"], environment={}, seconds=5).values
    assert values["machine.type"] == "p4d.24xlarge"
    assert values["machine.known_as"].startswith("p4d.24xlarge (8 x ")
    assert values["versions.driver"] == "550.54.15"
    assert values["gpu.name"] == "NVIDIA A100-SXM4-40GB"
    (dmi / "sys_vendor").write_text("Google\n")
    (dmi / "product_name").write_text("Google Compute Engine\n")
    record = fingerprint(root=tmp_path, command=["x"], environment={}, seconds=5)
    assert "network" in record.missing["machine.type"]
