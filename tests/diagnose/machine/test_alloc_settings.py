"""What the doctor says of allocator settings, against PyTorch itself, in processes of their own.

PyTorch for the CPU parses the options that all backends share; CUDA's own are not refused there.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oomph.diagnose.machine.alloc_settings import corrected, options_of, read_by_torch, refusals
from oomph.hardware.alloc_conf import alloc_options
from oomph.memory.allocator.parsing import _SINCE
from tests.diagnose.machine.built import environment, variables

pytest.importorskip("torch")

_PARSE = """
import json, sys, torch
result = []
for text in json.loads(sys.argv[1]):
    torch._C._accelerator_setAllocatorSettings('large_segment_size_mb:20')  # settings stay from text to text
    try:
        torch._C._accelerator_setAllocatorSettings(text)
        result.append("")
    except Exception as error:
        result.append(str(error).splitlines()[0] or "refused")
print(json.dumps(result))
"""
_TEXTS = [
    "expandable_segments:True",
    "expandable_segments:true",
    "expandable_segments:1",
    "expandable_segments=True",
    "max_split_size_mb:10",
    "max_split_size_mb:20",
    "max_split_size_mb:128",
    "max_split_size_mb:128;garbage_collection_threshold:0.8",
    "max_split_size_mb: 128, garbage_collection_threshold: 0.8",
    "garbage_collection_threshold:0.0",
    "garbage_collection_threshold:1.0",
    "garbage_collection_threshold:0.999",
    "roundup_power2_divisions:3",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "large_segment_size_mb:10",
    "large_segment_size_mb:64",
    "max_non_split_rounding_mb:10",
    "pinned_use_background_threads:True",
    "pinned_use_background_threads:yes",
]


def _torch(*arguments: str, code: str, **variables_: str) -> str:
    import os

    cleaned = {name: value for name, value in os.environ.items() if not name.endswith("ALLOC_CONF")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**cleaned, **variables_},
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """PyTorch's reasons to refuse, "" where it takes a text; one process for all."""
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 10):
        pytest.skip("this PyTorch has no settings that the backends share")
    texts = [*_TEXTS, *(fixed for fixed in (corrected(text, (2, 13)) for text in _TEXTS) if fixed)]
    return dict(zip(texts, json.loads(_torch(json.dumps(texts), code=_PARSE).splitlines()[-1]), strict=True))


def test_what_pytorch_refuses_is_refused(answers: dict[str, str]) -> None:
    for text in _TEXTS:
        reason = answers[text].strip()
        (ours,) = refusals(text, (2, 13)).values()
        assert bool(ours) == bool(reason), (text, ours, reason)
        if ours and "INTERNAL ASSERT" not in reason:
            assert ours == reason


def test_every_correction_is_taken_by_pytorch(answers: dict[str, str]) -> None:
    wrong = [text for text in _TEXTS if refusals(text, (2, 13))[(2, 13)]]
    right = [fixed for fixed in (corrected(text, (2, 13)) for text in wrong) if fixed]
    assert len(right) >= 5
    assert [answers[text] for text in right] == [""] * len(right)


def test_the_table_has_the_parsers_options_and_releases() -> None:
    assert {
        name: tuple(int(part) for part in each.since.split(".")) for name, each in alloc_options().items()
    } == _SINCE


def test_the_table_is_whole() -> None:
    for each in alloc_options().values():
        assert each.effect or each.range
        assert not each.needs or each.needs in alloc_options()


def test_options_of_a_text() -> None:
    text = "roundup_power2_divisions:[256:1,>:4], max_split_size_mb:128"
    assert list(options_of(text)) == ["roundup_power2_divisions", "max_split_size_mb"]
    assert options_of(text)["max_split_size_mb"] == "128"


def test_which_name_is_read() -> None:
    made = environment(variables=variables(PYTORCH_ALLOC_CONF="a", PYTORCH_CUDA_ALLOC_CONF="b"))
    read = read_by_torch(made)
    assert read is not None
    assert read.variable.name == "PYTORCH_CUDA_ALLOC_CONF"


def test_pytorch_reads_the_cuda_name_first() -> None:
    """A value that raises, in one name; a good one in the other."""
    import torch

    if not torch.__version__.startswith("2.13"):
        pytest.skip("the order was looked up for 2.13")
    code = "import torch; torch._C._accelerator_setAllocatorSettings('')\nprint('taken')"
    bad, good = "expandable_segments:true", "expandable_segments:False"
    first = _torch(code=code, PYTORCH_CUDA_ALLOC_CONF=bad, PYTORCH_ALLOC_CONF=good)
    second = _torch(code=code, PYTORCH_CUDA_ALLOC_CONF=good, PYTORCH_ALLOC_CONF=bad)
    assert "got 'true'" in first
    assert "taken" in second
