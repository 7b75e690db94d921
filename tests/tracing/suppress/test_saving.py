"""Savers, loaders and ranks under a real session: one script for each, whose own asserts are the test."""

from __future__ import annotations

import pickle

import pytest

from oomph.phases import Phase
from oomph.tracing.child.launch import run
from oomph.tracing.child.request import Ending
from tests.tracing.child.harness import request_of


def traced(folder, source, capfd, **settings):
    outcome = run(request_of(folder, source, **settings))
    assert outcome.ending is Ending.FINISHED, capfd.readouterr().err
    return pickle.loads((folder / "out.pickle").read_bytes())["oomph"]  # noqa: S301 - written by the test


def test_what_was_saved_can_be_loaded_again(tmp_path, capfd):
    source = """
    import io, os, torch
    layer = torch.nn.Linear(1000, 3).cuda()
    tied = torch.nn.Parameter(layer.weight.detach()[1:])
    allocated = torch.cuda.memory_allocated
    state = {"layer": layer.state_dict(), "view": tied, "epoch": 7, "real": torch.arange(5)}
    before = allocated()
    torch.save(state, "state.pt")
    assert allocated() == before
    assert os.path.exists("state.pt")

    found = torch.load("state.pt")
    # The weight's storage once, for both tensors on it: 12,000 bytes in multiples of 512, which is what PyTorch's
    # allocator gives (kMinBlockSize); the bias: 12 bytes in one.
    assert allocated() - before == 24 * 512 + 512, allocated() - before
    assert found["epoch"] == 7 and found["real"].tolist() == [0, 1, 2, 3, 4]
    weight = found["layer"]["weight"]
    assert weight.shape == (3, 1000) and weight.device.type == "cuda" and weight.dtype == torch.float32
    assert isinstance(found["view"], torch.nn.Parameter) and found["view"].shape == (2, 1000)
    assert found["view"].storage_offset() == 1000
    layer.load_state_dict(found["layer"])
    del found, weight
    assert allocated() == before

    for place in ("cpu", lambda storage, location: storage, {"cuda:0": "cpu"}):
        found = torch.load("state.pt", map_location=place)
        assert found["layer"]["weight"].device.type == "cpu"
        assert allocated() == before
    buffer = io.BytesIO()
    torch.save(layer.half().state_dict(), buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=True)["weight"].dtype == torch.float16

    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(2, 1000, device="cuda", dtype=torch.float16)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), "optimizer.pt")
    optimizer.load_state_dict(torch.load("optimizer.pt"))
    """
    found = traced(tmp_path, source, capfd)
    assert found["suppressed"] == ["write state.pt", "write optimizer.pt"]
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "out.pickle"}


def test_a_real_checkpoint_is_still_read(tmp_path, capfd):
    source = """
    import torch
    tensors = torch.load("real.pt", weights_only=True)
    assert tensors["a"].tolist() == [1.0, 2.0]
    """
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.tensor([1.0, 2.0])}, tmp_path / "real.pt")
    assert traced(tmp_path, source, capfd)["suppressed"] == []


def test_distributed_checkpoints_are_the_phase_save(tmp_path, capfd):
    source = """
    import torch
    import torch.distributed.checkpoint as dcp
    class Gathers:
        def state_dict(self):
            return {"x": torch.empty(1 << 20, dtype=torch.uint8, device="cuda")}
        def load_state_dict(self, state):
            assert state["x"].shape == (1 << 20,)
    state = {"gathers": Gathers(), "plain": torch.ones(4, device="cuda")}
    dcp.save(state, checkpoint_id="one")
    dcp.async_save(state, checkpoint_id="two").result()
    dcp.load(state, checkpoint_id="one")
    """
    found = traced(tmp_path, source, capfd)
    assert found["suppressed"] == [
        "write the distributed checkpoint one",
        "write the distributed checkpoint two",
    ]
    runs = found["devices"][0]["phase"]
    phases = [tuple(Phase)[number] for number in runs[::2]]
    assert Phase.SAVE in phases
    # After the saves, the load: its gather is of the phase `load`.
    assert phases[-1] is Phase.LOAD


def test_loaders_have_no_workers_and_ranks_run_here(tmp_path, capfd):
    source = """
    import os, torch
    import torch.multiprocessing as mp
    from torch.utils.data import DataLoader, TensorDataset, get_worker_info

    def work(rank, total):
        assert (rank, total) == (1, 2)
        torch.empty(100, device="cuda")
        open(f"rank{rank}", "w").close()

    def other(rank, seen):
        assert rank == 1
        open("other", "w").close()

    if __name__ == "__main__":
        data = TensorDataset(torch.arange(8))
        loader = DataLoader(data, 2, False, None, None, 2, pin_memory=True, persistent_workers=True, prefetch_factor=4)
        assert [batch[0].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]
        mp.spawn(work, args=(2,), nprocs=2)
        processes = [mp.Process(target=other, args=(rank, None)) for rank in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0 and not process.is_alive()
        assert os.path.exists("rank1") and os.path.exists("other") and not os.path.exists("rank0")
    """
    found = traced(tmp_path, source, capfd, world=2, rank=1, device_count=2, local_world=2)
    assert (
        "Data loaders run without worker processes: batches are the same, and made in turn." in found["notes"]
    )
    assert "Of the 2 processes that the script starts, number 1 is traced." in found["notes"]


_SAFETENSORS = """
import json, os, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
tensors = {"b": torch.empty(3, 5, device="cuda", dtype=torch.bfloat16), "a": torch.arange(4)}
save_file(tensors, "model.safetensors", metadata={"format": "pt"})
# 3 * 5 elements of two bytes and 4 of eight, after eight bytes and the header.
with open("model.safetensors", "rb") as stream:
    length = int.from_bytes(stream.read(8), "little")
    header = json.loads(stream.read(length))
assert os.path.getsize("model.safetensors") == 8 + length + 30 + 32
assert header["b"] == {"dtype": "BF16", "shape": [3, 5], "data_offsets": [32, 62]}
with safe_open("model.safetensors", framework="pt") as file:
    assert sorted(file.keys()) == ["a", "b"]
    assert file.get_slice("b").get_shape() == [3, 5]
    assert file.metadata() == {"format": "pt"}
assert load_file("model.safetensors")["a"].tolist() == [0, 1, 2, 3]
"""
_TOKENIZER = """
import sqlite3
from tokenizers import Tokenizer, models
tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
tokenizer.save("tokenizer.json")
assert Tokenizer.from_file("tokenizer.json").get_vocab() == {"a": 0}
with sqlite3.connect("runs.db") as base:
    base.execute("create table t (x)")
base.close()
"""
_MISSING = """
for name in {names}:
    try:
        __import__(name)
    except ImportError:
        sys.exit(0)
"""


@pytest.mark.parametrize(
    ("names", "source", "written"),
    [
        (["safetensors"], _SAFETENSORS, ["write model.safetensors"]),
        (["tokenizers"], _TOKENIZER, ["write tokenizer.json", "write runs.db"]),
    ],
)
def test_libraries_that_write_in_c(names, source, written, tmp_path, capfd):
    """Where the library is not installed there is nothing that could be written."""
    found = traced(tmp_path, _MISSING.format(names=names) + source, capfd)
    assert found["suppressed"] in ([], written)
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "out.pickle"}
