"""OOM103: an inference engine on the trainer's card."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import (
    BACKWARD,
    FORWARD,
    causes,
    diagnosed,
    failed,
    finding,
    gib,
    oom,
    ruled_out,
    top,
    traceback,
)

#: 79.15 = 0.45 free + 42.10 engine + 36.60 trainer
SHARED = oom(
    free="0.45 GiB",
    others=[(8811, "42.10 GiB")],
    process="36.60 GiB",
    allocated="35.10 GiB",
    cached="0.90 GiB",
)
RAY = "(vLLMHttpServer pid=8811) INFO 06-01 10:00:00 Available KV cache memory: 20.31 GiB\n"


def test_a_pid_that_the_log_names_as_an_engine() -> None:
    diagnosis = failed(BACKWARD, SHARED, before=RAY)
    found = finding(diagnosis, "colocated_engine")
    assert top(diagnosis) == "colocated_engine"
    assert found.certainty is Certainty.CERTAIN  # 42.10 + 0.45 GiB >= 2.00 GiB
    assert found.numbers == {"engine_bytes": gib(42.10)}
    assert found.actions[0] == "engine-memory"
    assert "other_process" not in causes(diagnosis)


def test_the_same_numbers_without_an_engine_are_a_stranger() -> None:
    assert top(failed(BACKWARD, SHARED)) == "other_process"


def test_an_engine_that_the_log_configures_and_much_outside() -> None:
    # 79.15 - 0.45 free - 36.00 reserved = 42.70 GiB, no process clause at all
    message = oom(free="0.45 GiB", process=None, allocated="35.10 GiB", cached="0.90 GiB")
    diagnosis = failed(BACKWARD, message, before="vllm_mode='colocate', gpu_memory_utilization=0.5\n")
    found = finding(diagnosis, "colocated_engine")
    assert top(diagnosis) == "colocated_engine"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"not_torch_bytes": gib(79.15) - gib(0.45) - gib(35.10) - gib(0.90)}


def test_an_engine_that_the_log_configures_and_nothing_outside_is_ruled_out() -> None:
    # 79.15 - 1.05 - 76.40 - 1.10 = 0.60 GiB: no engine fits in there
    diagnosis = failed(
        BACKWARD, oom(process=None), before="vllm_mode='colocate', gpu_memory_utilization=0.3\n"
    )
    assert "colocated_engine" not in causes(diagnosis)
    assert "614.40 MiB" in ruled_out(diagnosis, "colocated_engine")


def test_a_request_made_inside_the_engine_of_a_trainer() -> None:
    frames = [
        "train_grpo.py:70 in <module>: trainer.train()",
        "trl/trainer/grpo_trainer.py:640 in __init__: self.llm = LLM(",
        "vllm/v1/worker/gpu_model_runner.py:1780 in initialize_kv_cache: tensor = torch.zeros(tensor_config.size,",
    ]
    diagnosis = failed(frames, oom())
    assert top(diagnosis) == "colocated_engine"
    assert finding(diagnosis, "colocated_engine").certainty is Certainty.LIKELY


def test_an_engine_that_serves_alone_is_not_colocated() -> None:
    frames = [
        "serve.py:20 in <module>: llm = LLM(model)",
        "vllm/v1/worker/gpu_model_runner.py:1780 in initialize_kv_cache: tensor = torch.zeros(tensor_config.size,",
    ]
    assert "colocated_engine" not in causes(failed(frames, oom()))


def test_the_engines_own_allocator_cannot_wake_up() -> None:
    error = "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62"
    diagnosis = diagnosed(f"INFO waking up the vLLM engine\n{error}\n")
    assert top(diagnosis) == "colocated_engine"
    assert finding(diagnosis, "colocated_engine").certainty is Certainty.CERTAIN


def test_words_alone_do_not_make_an_engine() -> None:
    text = "loading dataset rlhf-prompts\n" + traceback(FORWARD, oom())
    assert "colocated_engine" not in causes(diagnosed(text))
