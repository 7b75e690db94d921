"""`torch.load` of real files to the GPU takes one block per storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracing.programs import traced

_PLACES = [
    '"cuda"',
    '"cuda:0"',
    'torch.device("cuda")',
    "lambda storage, location: storage.cuda()",
    "lambda storage, location: storage.cuda(0)",
    '{"cpu": "cuda:0"}',
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    torch = pytest.importorskip("torch", reason="tracing needs PyTorch")
    path = tmp_path / "real.pt"
    weight = torch.arange(5000, dtype=torch.float32)
    torch.save({"weight": weight, "tied": weight.view(50, 100)[1:], "step": torch.tensor(3)}, path)
    return path


@pytest.mark.parametrize("place", _PLACES)
def test_storages_are_moved_once_each(file: Path, place: str) -> None:
    seen = traced(f"""
        mark()
        loaded = torch.load({str(file)!r}, map_location={place})
        print(loaded["weight"].device, loaded["tied"].shape, loaded["tied"].storage_offset())
        print(loaded["step"].item(), loaded["weight"][7].item())
    """)
    # 5,000 floats for both tensors, one int64.
    assert seen.events_after_mark[:2] == [("alloc", 20000), ("alloc", 8)]
    # Values are kept of up to 4,096 floats; the step is known.
    assert seen.printed == "cuda:0 torch.Size([49, 100]) 100\n3 1.0\n"


def test_on_the_host_nothing_is_taken(file: Path) -> None:
    seen = traced(f"""
        loaded = torch.load({str(file)!r}, map_location="cpu")
        print(loaded["weight"][7].item(), loaded["weight"].device)
    """)
    assert seen.events == []
    assert seen.printed == "7.0 cpu\n"


def test_a_checkpoint_of_the_run_comes_back_to_the_gpu(tmp_path: Path) -> None:
    """The step counts of Adam are on the host, and come along."""
    seen = traced(f"""
        layer = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.Adam(layer.parameters())
        layer(torch.randn(2, 64, device="cuda")).sum().backward()
        optimizer.step()
        torch.save({{"m": layer.state_dict(), "o": optimizer.state_dict()}}, {str(tmp_path / "c.pt")!r})
        loaded = torch.load({str(tmp_path / "c.pt")!r}, map_location="cuda")
        optimizer.load_state_dict(loaded["o"])
        print(loaded["o"]["state"][0]["step"].item(), loaded["o"]["state"][0]["exp_avg"].device)
    """)
    assert seen.printed == "1.0 cuda:0\n"
