"""What is left out or refused is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracing.libraries.harness import program, script


def test_a_compiled_model_runs_eager_and_it_is_said() -> None:
    seen = program(
        """
        import torch
        model = torch.compile(torch.nn.Linear(8, 8).to("cuda"))
        print(type(model).__name__, tuple(model(torch.zeros(2, 8, device="cuda")).shape))
        """
    )
    assert seen.printed == "Linear (2, 8)\n"
    assert "torch.compile was left out" in seen.said


def test_a_decorated_function_that_nobody_calls_is_not_worth_a_word() -> None:
    text = """
        import torch
        @torch.compile(mode="max-autotune")
        def double(x):
            return x + x
    """
    assert "torch.compile" not in program(text).said
    seen = program(f'{text}    print(tuple(double(torch.zeros(2, device="cuda")).shape))')
    assert seen.printed == "(2,)\n"
    assert "torch.compile was left out" in seen.said


@pytest.mark.parametrize(("package", "word"), [("deepspeed", "FSDP2"), ("xformers", "CUDA kernels")])
def test_packages_that_cannot_be_traced(package: str, word: str) -> None:
    kind, text = program(f"import {package}", fails=True).failed
    assert kind == "NotTraceableError"
    assert package in text
    assert word in text


def test_a_script_that_can_do_without_does_without(tmp_path: Path) -> None:
    (tmp_path / "apex.py").write_text("raise SystemExit('it is not to run')")
    seen = program(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        for name in ("liger_kernel", "apex"):
            try:
                __import__(name)
            except ImportError:
                print("without", name)
        import importlib.util
        print(importlib.util.find_spec("apex") is not None)
        """
    )
    assert seen.printed.splitlines() == ["without liger_kernel", "without apex", "True"]
    assert "apex was taken to be not installed" in seen.said
    assert "liger_kernel" not in seen.said  # it is not installed, as the script finds


def test_a_trainer_with_deepspeed_is_one_sentence() -> None:
    kind, text = program(
        """
        from transformers import TrainingArguments
        TrainingArguments("out", deepspeed={"zero_optimization": {"stage": 2}})
        """,
        fails=True,
    ).failed
    assert kind == "NotTraceableError"
    assert "trace the script without DeepSpeed" in text
    assert "oomph plan" not in text  # there is no such command


def test_generation_runs_to_its_longest_length() -> None:
    seen = program(
        """
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel
        config = GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=100, n_positions=64)
        model = GPT2LMHeadModel(config).to("cuda")
        start = torch.ones(2, 4, dtype=torch.long, device="cuda")
        for kwargs in ({}, {"do_sample": True}, {"num_beams": 3}):
            lengths = []
            def see(ids, scores):
                lengths.append(ids.shape[1])
                return scores
            model.generate(start, max_new_tokens=6, pad_token_id=0, eos_token_id=99, logits_processor=[see], **kwargs)
            print(lengths)
        """
    )
    assert seen.printed.splitlines() == ["[4, 5, 6, 7, 8, 9]"] * 3
    assert "generated sequences run to their longest length" in seen.said


def test_a_diffusion_model_with_an_average_of_its_weights() -> None:
    pytest.importorskip("diffusers", reason="what is tested is diffusers")
    seen = script("unet_ddpm", steps=2)
    assert seen.answer["steps"] == 2
    # Weights in float32 and two moments; the average is a third copy of the weights.
    weights = seen.last["optimizer state"] // 8
    assert seen.most["gradients"] >= 4 * weights
    assert "no gradient is infinite" in seen.said


def test_lightning() -> None:
    pytest.importorskip("lightning", reason="what is tested is Lightning")
    seen = script("lightning_fit", steps=2)
    parameters = 2 * (64 * 64 + 64) + 64 * 10 + 10
    assert seen.answer["steps"] == 2
    assert seen.most["parameters"] == 4 * parameters
    assert seen.most["gradients"] == 4 * parameters


def test_a_full_card_is_a_real_error_that_a_batch_finder_catches() -> None:
    seen = program(
        """
        import torch
        from accelerate.utils import find_executable_batch_size

        @find_executable_batch_size(starting_batch_size=64)
        def train(batch_size):
            torch.zeros(batch_size, 1 << 20, device="cuda")
            return batch_size

        print(train())
        """,
        capacity=100 << 20,
    )
    # 4 MiB a sample, 100 MiB in all: accelerate takes a tenth off until 22 samples or fewer fit.
    assert 4 * int(seen.printed) <= 100


def test_the_loss_of_trl_holds_one_tile_of_logits() -> None:
    seen = program(
        """
        import torch
        from trl.kernels.chunked_logprob import _forward_tile
        tile = torch.zeros(64, 1000, device="cuda", dtype=torch.bfloat16)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        sums = torch.zeros(64, device="cuda")
        _forward_tile(tile, tile.stride(0), sums)
        print(torch.cuda.max_memory_allocated() - before - 512)
        print(sums[0].item())
        """
    )
    # What a kernel wrote is not what was there before: numbers that only a GPU computes read as 1.
    assert seen.printed.splitlines()[0] == "0"
    assert seen.printed.splitlines()[1] == "1.0"
