"""Weights, gradients and optimizer states: dtype, LoRA, quantisation, sharding, 8 bits, foreach, checkpoints."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Step
from oomph.phases import Phase
from oomph.remedy.actions import all_actions
from oomph.units import GIB
from tests.remedy.cases import case_of, finding_of

STEP = ("/x/site-packages/torch/optim/adamw.py", "step", "adamw(")
MULTI = ("/x/site-packages/torch/optim/adamw.py", "_multi_tensor_adamw")


def step(code: str, cause: str = "static_state_too_big", **case: object) -> Step:
    case.setdefault("phase", Phase.LOAD)
    return all_actions()[code].step(case_of(**case), finding_of(cause, code))  # type: ignore[arg-type]


def test_bf16_frees_two_bytes_of_every_fp32_parameter() -> None:
    made = step("lower-dtype", facts={"dtype": "fp32", "total_params": 2 * 10**9})
    assert made.frees_bytes == 4 * 10**9
    assert "7.45 GiB against 3.73 GiB" in made.text  # 8e9 and 4e9 bytes


def test_bf16_frees_an_unknown_amount_where_the_dtype_is_not_known_or_weights_are_sharded() -> None:
    assert step("lower-dtype", facts={"total_params": 10**9}).frees_bytes is None
    assert (
        step("lower-dtype", facts={"dtype": "fp32", "total_params": 10**9, "zero_stage": 3}).frees_bytes
        is None
    )


def test_autocast_is_not_mistaken_for_low_precision_weights() -> None:
    made = step("lower-dtype", facts={"dtype": "fp32", "mixed_precision": "bf16"})
    assert "autocast keeps the parameters in fp32" in made.text


def test_lora_counts_adams_states() -> None:
    facts = {"dtype": "fp32", "optimizer": "adamw_torch", "trainable_params": 10**9, "total_params": 10**9}
    assert "7.45 GiB" in step("lora", facts=facts).text  # 8 bytes x 1e9
    assert "LoraConfig" in step("lora").paste


def test_a_quantisation_flag_is_checked_against_what_was_allocated() -> None:
    made = step("quantize-check", facts={"quantization": "4bit", "total_params": 8 * 10**9})
    assert "about 3.73 GiB in 4 bits" in made.text  # 4e9 bytes
    assert "21.94 GiB were allocated" in made.text
    assert "dtype" in made.paste


def test_adapters_on_a_full_base_are_offered_quantisation() -> None:
    made = step("quantize-check", facts={"lora_rank": 16, "dtype": "bf16"})
    assert made.title == "Quantise the frozen base to 4 bits"
    assert "load_in_4bit=True" in made.paste
    assert not all_actions()["quantize-check"].applies(case_of(phase=Phase.LOAD))


def test_sharding_takes_all_but_one_share_of_the_weights() -> None:
    made = step("shard-more", facts={"dtype": "bf16", "total_params": 8 * 10**9, "world_size": 4})
    assert made.frees_bytes == 16 * 10**9 * 3 // 4
    assert "fully_shard(block)" in made.paste
    assert step("shard-more", facts={"dtype": "bf16", "total_params": 8 * 10**9}).frees_bytes is None


def test_what_is_sharded_needs_more_ranks() -> None:
    made = step("shard-more", facts={"zero_stage": 3, "world_size": 8})
    assert made.title == "Shard over more GPUs"
    assert "1/8" in made.text
    assert made.paste == ""


def test_optimizer_states_leave_with_all_shares_but_one() -> None:
    facts = {
        "dtype": "fp32",
        "optimizer": "AdamW",
        "trainable_params": 10**9,
        "world_size": 8,
        "framework": "ddp",
    }
    made = step("shard-optimizer", "optimizer_memory", phase=Phase.OPTIMIZER, facts=facts)
    assert made.frees_bytes == 7 * 10**9  # 8 bytes x 1e9 x 7/8
    assert "ZeroRedundancyOptimizer" in made.paste


def test_sharded_states_are_offloaded_once() -> None:
    facts: dict[str, str | int] = {"zero_stage": 2, "optimizer": "AdamW", "trainable_params": 10**9}
    facts["world_size"] = 8
    made = step("shard-optimizer", "optimizer_memory", phase=Phase.OPTIMIZER, facts=facts)
    assert made.title == "Offload the sharded optimizer states to the CPU"
    assert made.frees_bytes == 10**9  # 8e9 bytes over 8 ranks
    assert '"offload_optimizer": {"device": "cpu"}' in made.paste
    case = case_of(phase=Phase.OPTIMIZER, facts={**facts, "offload": "cpu:optimizer"})
    assert not all_actions()["shard-optimizer"].applies(case)


def test_eight_bits_free_about_six_bytes_of_every_parameter() -> None:
    facts = {"dtype": "fp32", "optimizer": "AdamW", "trainable_params": 256 * 10**6}
    made = step("eight-bit-optimizer", "optimizer_memory", phase=Phase.OPTIMIZER, facts=facts)
    # 8 - 2 bytes each, less two fp32 scales for every 256 entries: 1,536,000,000 - 8,000,000
    assert made.frees_bytes == 1_528_000_000
    assert "AdamW8bit" in made.paste


@pytest.mark.parametrize(
    "facts", [{"optimizer": "paged_adamw_8bit"}, {"optimizer": "Adafactor"}, {"zero_stage": 2}]
)
def test_eight_bits_are_not_proposed_to_small_or_sharded_optimizers(facts: dict[str, str | int]) -> None:
    assert not all_actions()["eight-bit-optimizer"].applies(case_of(phase=Phase.OPTIMIZER, facts=facts))


def test_foreach_is_for_temporaries_only() -> None:
    action = all_actions()["foreach-off"]
    temporary = [STEP, (*MULTI, "exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)")]
    assert action.applies(case_of(phase=Phase.OPTIMIZER, frames=temporary))
    state = [STEP, ("/x/torch/optim/adamw.py", "_init_group", 'state["exp_avg"] = torch.zeros_like(p)')]
    assert not action.applies(case_of(phase=Phase.OPTIMIZER, frames=state))
    fused = case_of(phase=Phase.OPTIMIZER, frames=temporary, facts={"optimizer": "adamw_torch_fused"})
    assert not action.applies(fused)
    assert not action.applies(case_of(phase=Phase.OPTIMIZER))


def test_foreach_in_clipping_is_turned_off_in_clipping() -> None:
    frames = [
        ("/x/torch/nn/utils/clip_grad.py", "clip_grad_norm_", "torch._foreach_mul_(grads, clip)"),
    ]
    made = step("foreach-off", "optimizer_memory", phase=Phase.OPTIMIZER, frames=frames)
    assert "clip_grad_norm_" in made.paste
    assert "foreach=False" in made.paste


def test_map_location_is_not_repeated() -> None:
    action = all_actions()["map-location-cpu"]
    plain = case_of(phase=Phase.LOAD, frames=[("train.py", "resume", "ckpt = torch.load(path)")])
    there = case_of(
        phase=Phase.LOAD, frames=[("train.py", "resume", 'ckpt = torch.load(path, map_location="cpu")')]
    )
    assert action.applies(plain)
    assert not action.applies(there)
    assert 'map_location="cpu"' in action.step(plain, finding_of("resume_checkpoint")).paste


def test_a_checkpoint_is_deleted() -> None:
    assert "del checkpoint" in step("drop-checkpoint-dict", "resume_checkpoint").paste


def test_saving_is_spelled_for_what_gathers() -> None:
    def paste(**case: object) -> str:
        return step("cpu-offload-save", "checkpoint_save_gather", phase=Phase.SAVE, **case).paste

    api = ("/x/torch/distributed/checkpoint/state_dict.py", "get_model_state_dict", "return _get(model)")
    assert "cpu_offload=True" in paste(frames=[api])
    old = ("/x/torch/distributed/fsdp/_state_dict_utils.py", "_full_post_state_dict_hook", "clone()")
    assert "rank0_only=True" in paste(frames=[old])
    assert "stage3_gather_16bit_weights_on_model_save" in paste(facts={"framework": "deepspeed"})
    assert ".cpu()" in paste()


def test_meta_loading_needs_ranks_and_the_loading_phase() -> None:
    action = all_actions()["meta-load"]
    assert action.applies(case_of(phase=Phase.LOAD))
    assert not action.applies(case_of(phase=Phase.LOAD, facts={"world_size": 1}))
    assert not action.applies(case_of(phase=Phase.FORWARD))
    assert 'torch.device("meta")' in step("meta-load").paste


def test_a_gib_is_a_gib() -> None:
    """The sums above are decimal parameters in binary sizes."""
    assert round(8 * 10**9 / GIB, 2) == 7.45
