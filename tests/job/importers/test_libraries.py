from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.job.importers import libraries
from oomph.job.model import Framework

TEXTS = [
    (
        "torch 2.4.1, transformers 4.48.1, trl 0.13.0, flash-attn 2.7.0.post2",
        {"torch": "2.4.1", "transformers": "4.48.1", "trl": "0.13.0", "flash-attn": "2.7.0.post2"},
    ),
    ("Lightning 2.1, PyTorch 2.1", {"lightning": "2.1", "torch": "2.1"}),
    ("torchtune ~0.3, torch 2.5 nightly", {"torchtune": "0.3", "torch": "2.5.0.dev"}),
    ("torch 2.4 nightly 20240427, litgpt", {"torch": "2.4.0.dev20240427"}),
    ("torch==2.3.0+cu121; transformers==4.40.0", {"torch": "2.3.0+cu121", "transformers": "4.40.0"}),
    ("flash_attention v2.5.8 + PyTorch 2.2", {"flash-attn": "2.5.8", "torch": "2.2"}),
    ("litgpt (2024 releases; torch version per row not given)", {"litgpt-date": "2024"}),
    ("torchtitan commit 9dec370", {"torchtitan": "git9dec370"}),
    (
        "torch 2.8.0a0+5228986c39, torchtitan e7c0cae (2025-06)",
        {"torch": "2.8.0a0+5228986c39", "torchtitan": "gite7c0cae", "torchtitan-date": "2025.06"},
    ),
    # PyTorch's 2.6 branch was cut at the beginning of December 2024: main was 2.7 on the 23rd.
    (
        "torch 1963fc8 (2024-12-23)",
        {"torch": "2.7.0.dev+git1963fc8", "torch-date": "2024.12.23"},
    ),
    ("my own script, no versions", {}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_versions_are_read_out_of_free_text(text, expected):
    assert libraries.versions(text) == expected


def test_versions_compare_as_numbers_and_commits_do_not():
    found = libraries.versions("torch 1963fc8 (2024-12-23), torchao 0afa4c1, peft 0.19.2.dev0")
    framework = Framework(versions=tuple(sorted(found.items())))
    assert framework.version("torch") == (2, 7, 0)
    assert framework.version("torchao") is None
    assert framework.version("peft") == (0, 19, 2)


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("torch 2.4.1, transformers 4.48.1, trl 0.13.0", "", "trl"),
        (
            "torch 2.4.1, transformers 4.45.2",
            "CSVs [foundation-model-stack/fms-acceleration/refs/a.csv@8]",
            "fms-acceleration",
        ),
        (
            "torch 2.13.0, transformers 5.13.1, peft 0.19",
            "x [huggingface/peft/results/a.json@5]",
            "peft-method-comparison",
        ),
        ("litgpt (2024 releases)", "x [Lightning-AI/litgpt/config_hub/a.yaml]", "litgpt"),
        ("torch 2.4 nightly, litgpt thunder pretrain.py", "x [Lightning-AI/litgpt/README.md]", "litgpt"),
        ("lightning-thunder thunder/benchmarks/benchmark_litgpt.py", "", "lightning-thunder"),
        ("torch 1963fc8, torchao eab345c, torchtitan 9dec370", "", "torchtitan"),
        ("Lightning 2.1, PyTorch 2.1", "docs [Lightning-AI/pytorch-lightning docs (fsdp)]", "lightning"),
        ("minimind benchmark.py 2026", "issue [jingyaogong/minimind#795]", "minimind"),
        ("PyTorch 2.1", "somebody's blog", ""),
    ],
)
def test_whose_code_trains(text, source, name):
    assert libraries.trainer(text, source) == name


def test_a_publication_can_have_a_date():
    assert (
        libraries.source_date("torchtitan benchmarks 2024-12 [pytorch/torchtitan/x_202412.md@b5]")
        == "2024.12"
    )
    assert libraries.source_date("a table [repo/x@2024-12]") == ""


WORDS = ["torch", "2.4", "(2024-12-23)", "1963fc8", "nightly", ",", ";", "(", ")", "=="]


@given(st.text(max_size=300) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text_gives_texts(text):
    found = libraries.versions(text)
    assert all(found.values())
    assert isinstance(libraries.trainer(text, text), str)
    Framework(versions=tuple(found.items())).version("torch")
