"""Which frames prove which phase.

A marker says what a frame belongs to and how binding that is. Names are those of PyTorch, Transformers, TRL,
Accelerate, Lightning, DeepSpeed, FSDP 1 and 2, torchtune, torchtitan, Megatron, NeMo, diffusers, PEFT and bitsandbytes,
and what people call such functions in their own code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.evidence.model import Frame
from oomph.phases import Phase


@dataclass(frozen=True)
class Marker:
    """`weak` markers yield to any other inside them (a user's `setup()` that trains); `recompute` is a checkpoint's."""

    phase: Phase
    weak: bool = False
    recompute: bool = False


_LIBRARY = re.compile(r"(?:site|dist)-packages/|/torch/|torchinductor|<frozen|/lib/python")

_BACKWARD_FILE = re.compile(r"torch/(?:_tensor|tensor)\.py$|torch/autograd/(?:__init__|graph|variable)\.py$")
_BACKWARD_FUNCTION = re.compile(
    r"(?:_?backward|_engine_run_backward|run_backward|manual_backward|backward_step|_?backward_pass|"
    r"_exec_backward_pass|_?(?:pre|post)_backward\w*|_backward_impl|call_compiled_backward|"
    r"_?reduce_ipg_grads|reduce_partition_and_remove_grads|allreduce_gradients|reduce_gradients|"
    r"backward_fn|forward_backward_func_backward)$"
)
_RECOMPUTE = re.compile(r"(?:backward|unpack_hook|inner_unpack|recompute_fn|unpack)$")

_OPTIM_FILE = re.compile(
    r"torch/optim/(?!lr_scheduler)\w+\.py$|/optim(?:izer|izers)?/\w+\.py$|optimizer\w*\.py$|/(?:zero|fp16)/\w*"
    r"(?:stage|optim|fused)\w*\.py$|torch/optim/_\w+\.py$|/low_level_optim\.py$|grad_scaler\.py$|_adam\w*\.py$"
)
_OPTIM_FUNCTION = re.compile(
    r"(?:step|_init_group|_?(?:multi|single)_tensor_\w+|_fused_\w+|adamw?|sgd|adafactor|update_step|init_state|"
    r"get_state_buffer|optimizer_step|_optimizer_step|_take_model_step|_maybe_opt_step|unscale_|_unscale_grads_|"
    r"sharded_step|_step_with_\w+)$"
)
_CLIP = re.compile(
    r"_?clip_grad\w*$|_get_total_norm$|clip_gradients$|_clip_grads_with_norm_$|get_grad_norm\w*$"
)

_FORWARD_FUNCTION = re.compile(
    r"(?:_?forward|\w+_forward|forward_\w+|_?call_impl|_wrapped_call_impl|_slow_forward|_run_ddp_forward|"
    r"_?training_step|compute_loss|_pre_forward\w*|pre_forward|_root_pre_forward|_exec_forward_pass|"
    r"_loss_step|\w*(?:_loss|Loss|_losses|loss_dict|_loss_fn)|loss_function|fixed_cross_entropy|cross_entropy|"
    r"get_batch_loss_metrics|concatenated_forward|get_train_loss_dict|_get_per_token_logps\w*|get_logps|"
    r"call_unet|scaled_dot_product_attention|sdpa_attention_forward|flash_attention_forward)$"
)
_FORWARD_FILE = re.compile(r"torch/nn/(?:functional|modules/(?!module)\w+)\.py$|/modeling_\w+\.py$")
_COMPILED = re.compile(r"torchinductor|/triton/runtime/|cudagraph_trees\.py$|aot_autograd|_functorch/")

_EVAL_FUNCTION = re.compile(
    r"_?(?:run_|do_|log_|on_|maybe_|_run_)*(?:eval|evals|evaluate|evaluation|validate|validation|valid|val|infer|"
    r"inference)(?:_\w+)?$|"
    r"_?(?:predict|prediction)(?:_step|_loop|_batch|_epoch|s)?$|on_(?:test|predict)_\w+$|test(?:_step|_epoch|_loop)?$|"
    r"_run_sanity_check$|gather_for_metrics$|compute_metrics$|preprocess_logits_for_metrics$"
)
_EVAL_FILE = re.compile(
    r"(?:^|/)(?:val|validate|validation|evaluate|eval|evaluator|evaluation|evaluation_loop|predict|prediction_loop|inference)\.py$"
)

#: Pictures that a trainer makes of its own state: a kind of evaluation, like a validation's.
_PREVIEW = re.compile(r"_*(?:execute_)?samples?_(?:during_training|loop|images?)\w*$|_*preview(?:_\w+)?$")
_NOT_EVAL = re.compile(r"(?:<module>|forward|_?fit(?:_\w+)?|_?train(?:_\w+)?)$")
#: pytest's files: a function test_step in one of them is a test.
_TEST_FILE = re.compile(r"(?:^|/)(?:tests?/|test_\w+\.py$|\w+_test\.py$)")
_GENERATE_FUNCTION = re.compile(
    r"(?:_?generate(?:_(?:samples?|text|sequences?|images?|batch|completions?|responses?|rollouts?|and_score\w*|"
    r"experiences?|outputs?|one\w*|step|tokens?|predictions?|loop|fn))?|_beam_search|_greedy_search|_contrastive_search|_assisted_decoding|"
    r"(?:\w+_)?(?:greedy|beam)_search|(?:valid|test)_search|search_step|_?prefill|wake_up|_?rollout(?:_\w+)?|generate_sequences)$"
)
_PIPELINE_FILE = re.compile(r"/diffusers/pipelines/")

_SAVE_FUNCTION = re.compile(
    r"_?(?:async_)?save(?:d)?(?:_(?!for_backward|on_cpu)\w+)?$|\w+_save$|push_to_hub$|_?write_checkpoint\w*$|_maybe_save\w*$|"
    r"get_(?:model|optimizer)?_?state_dict$|_gather_state_dict$|_full_post_state_dict_hook$|"
    r"(?:_?full_|_?sharded_)?optim_state_dict\w*$|consolidate_state_dict$|_zero3_consolidated_\w+$|"
    r"_maybe_full_or_cpu_state_dict$|_save_checkpoint$|_consolidated_16bit_state_dict$|dump_checkpoint$"
)
_STATE_DICT_FILE = re.compile(
    r"fsdp/_state_dict_utils\.py$|distributed/_state_dict_utils\.py$|fsdp/_optim_utils\.py$"
)

#: torch.distributed.checkpoint's and FSDP's ways to put a state dict back.
_SETS_STATE = re.compile(r"_?set_(?:model|optimizer)?_?state_dict$|(?:_?\w+_)?optim_state_dict_to_load$")
#: A module that is made, not called: its parameters go to the device as they are made.
_NN_FILE = re.compile(r"torch/nn/modules/\w+\.py$|torch/nn/init\.py$|/modeling_\w+\.py$")
_BUILDS = re.compile(
    r"__init__$|_?reset_parameters$|_?init_weights$|_?from_config$|_?resize_token_embeddings$|"
    r"_?\w*uniform_$|_?\w*normal_$"
)
_LOAD_FUNCTION = re.compile(
    r"(?:from_pretrained|_load_pretrained_model|_load_state_dict_into_\w+|load_state_dict|_load_from_state_dict|"
    r"_load_from_checkpoint|_load_optimizer_and_scheduler|_cuda_deserialize|restore_location|default_restore_location|"
    r"dispatch_model|set_module_tensor_to_device|set_module_quantized_tensor_to_device|_materialize_copy|load_adapter|"
    r"load_checkpoint(?:_\w+)?|prepare_model_for_kbit_training|_move_model_to_device|model_to_device|to_empty|"
    r"load_lora_weights|load_model(?:_\w+)?|_setup_model|materialize_meta\w*|create_quantized_param)$"
)
_LOAD_USER = re.compile(
    r"_?(?:re)?load(?:_(?!batch|data|dataset|image|audio|sample|text|example|tokenizer|config|yaml|json)\w+)?$|"
    r"restore(?:_\w+)?$|resume(?:_\w+)?$|move_(?:model|weights)\w*$|\w*weights_to_device$"
)
_MODULE_FILE = re.compile(
    r"torch/nn/modules/module\.py$|bitsandbytes/nn/modules\.py$|pipelines/pipeline_utils\.py$|modeling_utils\.py$"
)
_MODULE_MOVE = re.compile(r"(?:to|cuda|_apply|convert|half|bfloat16|float|type|to_empty|xpu|npu|<lambda>)$")
_SERIALIZATION_FILE = re.compile(
    r"torch/serialization\.py$|torch/_weights_only_unpickler\.py$|safetensors/torch\.py$"
)
_SERIALIZATION_SAVE = re.compile(r"_?(?:legacy_)?save\w*$")

_INIT_FILE = re.compile(
    r"nn/parallel/distributed\.py$|/fsdp/(?:fully_sharded_data_parallel|_init_utils|wrap)\.py$|/_fully_shard/|"
    r"deepspeed/(?:__init__|runtime/)\w*|torch/distributed/(?:utils|distributed_c10d)\.py$|megatron/"
)
_INIT_FUNCTION = re.compile(
    r"(?:__init__|_sync_module_states|_sync_params_and_buffers|init_process_group|_new_process_group_helper|"
    r"_auto_wrap|_init_param_handle\w*|fully_shard|_init_sharded_param|_init_extensions|initialize|wrapper__init|"
    r"_shard_tensor|setup_model_and_optimizer|_configure_\w+|_init_device_mesh|_partition_param\w*)$"
)
_ENGINE_FILE = re.compile(r"/(?:vllm|sglang)/")
_ENGINE_INIT = re.compile(
    r"(?:__init__|from_engine_args|from_vllm_config|_?initialize_\w+|_?allocate_kv_cache\w*|_init_\w+|"
    r"determine_num_available_blocks|profile_run|capture_model|init_device|init_memory_pool|create_engine)$"
)
_INIT_USER = re.compile(
    r"_?(?:setup|init|initialize|initialise|build|create|construct|prepare|configure|shard)(?:_\w+)?$"
)


def marker_of(frame: Frame) -> Marker | None:
    """What this frame proves by its file and function, or None."""
    file = frame.file.replace("\\", "/")
    function = frame.function.rpartition(".")[2].rstrip("()") or frame.function
    library = _LIBRARY.search(file) is not None
    for find in (_checkpoint, _save, _generate, _evaluate, _backward, _optimizer, _load, _init, _forward):
        marker = find(file, function, library, frame)
        if marker is not None:
            return marker
    return None


def _checkpoint(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if file.endswith(
        ("torch/utils/checkpoint.py", "activation_checkpointing/checkpointing.py")
    ) and _RECOMPUTE.match(function):
        return Marker(Phase.BACKWARD, recompute=True)
    return None


def _backward(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if file.endswith("autograd/function.py") and function == "apply" and "user_fn" in frame.code:
        return Marker(Phase.BACKWARD)
    if _BACKWARD_FILE.search(file) and "ackward" in function:
        return Marker(Phase.BACKWARD)
    if file.endswith("autograd/__init__.py") and function == "grad":
        return Marker(Phase.BACKWARD)
    if _BACKWARD_FUNCTION.match(function):
        return Marker(Phase.BACKWARD)
    return None


def _optimizer(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if _CLIP.match(function):
        return Marker(Phase.OPTIMIZER)
    if file.endswith("lr_scheduler.py"):
        return None
    if function in ("optimizer_step", "_optimizer_step", "_take_model_step"):
        return Marker(Phase.OPTIMIZER)
    if _OPTIM_FILE.search(file) and _OPTIM_FUNCTION.match(function):
        return Marker(Phase.OPTIMIZER)
    if file.endswith("torch/optim/optimizer.py") and function in ("wrapper", "profile_hook_step"):
        return Marker(Phase.OPTIMIZER)
    if library and "deepspeed" in file and function == "step":
        return Marker(Phase.OPTIMIZER)
    return None


def _save(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if _SERIALIZATION_FILE.search(file):
        return Marker(Phase.SAVE) if _SERIALIZATION_SAVE.match(function) else None
    if (
        _SAVE_FUNCTION.match(function)
        and not function.endswith("_to_load")
        and not (library and "autograd" in file)
    ):
        return Marker(Phase.SAVE)
    if (
        _STATE_DICT_FILE.search(file)
        and "load" not in function
        and not function.startswith(("set_", "_set_"))
    ):
        return Marker(Phase.SAVE)
    if not library and _copies_state(frame):
        return Marker(Phase.SAVE)
    return None


def _generate(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if function == "_sample" and file.endswith("generation/utils.py"):
        return Marker(Phase.GENERATE)
    if _PIPELINE_FILE.search(file) and function == "__call__":
        return Marker(Phase.GENERATE, weak=True)
    if _GENERATE_FUNCTION.match(function):
        return Marker(Phase.GENERATE)
    return None


def _evaluate(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if (function == "test" and library) or (function.startswith("test") and _TEST_FILE.search(file)):
        return None
    if _EVAL_FUNCTION.match(function):
        return Marker(Phase.EVAL, weak=not library and function.startswith(("predict", "_predict")))
    if _PREVIEW.match(function):
        return Marker(Phase.EVAL)
    if _EVAL_FILE.search(file) and not _NOT_EVAL.match(function):
        return Marker(Phase.EVAL)
    return None


def _copies_state(frame: Frame) -> bool:
    """A copy of a state dict is made to be saved; a deep copy of a model makes a second set of weights."""
    code = frame.span or frame.code
    return "state_dict()" in code and ("deepcopy(" in code or "full_tensor()" in code)


def _load(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if _SERIALIZATION_FILE.search(file) or _SETS_STATE.match(function):
        return Marker(Phase.LOAD)
    if _NN_FILE.search(file) and _BUILDS.match(function):
        return Marker(Phase.LOAD)
    if _MODULE_FILE.search(file) and _MODULE_MOVE.match(function):
        return Marker(Phase.LOAD)
    if file.endswith("torch/optim/swa_utils.py") and function == "__init__":
        return Marker(Phase.LOAD)  # AveragedModel: a second set of the weights
    if _LOAD_FUNCTION.match(function):
        return Marker(Phase.LOAD)
    if not library and _LOAD_USER.match(function):
        return Marker(Phase.LOAD, weak=True)
    return None


def _init(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if _INIT_FILE.search(file) and _INIT_FUNCTION.match(function):
        return Marker(Phase.INIT)
    if file.endswith("torch/cuda/__init__.py") and function in (
        "set_device",
        "_lazy_init",
        "init",
        "__enter__",
    ):
        return Marker(Phase.INIT, weak=True)
    if _ENGINE_FILE.search(file) and _ENGINE_INIT.match(function):
        return Marker(Phase.INIT)
    if file.endswith("placement_types.py") and function.startswith("_shard"):
        return Marker(Phase.INIT, weak=True)
    if not library and _INIT_USER.match(function):
        return Marker(Phase.INIT, weak=True)
    return None


def _forward(file: str, function: str, library: bool, frame: Frame) -> Marker | None:
    if _FORWARD_FUNCTION.match(function) or _FORWARD_FILE.search(file):
        return Marker(Phase.FORWARD)
    if file.endswith("module.py") and function in ("inner", "__call__"):
        return Marker(Phase.FORWARD)
    if _COMPILED.search(file):
        return Marker(Phase.FORWARD, weak=True)
    return None


_CODE = (
    (Phase.BACKWARD, re.compile(r"\.backward\(|autograd\.grad\(")),
    (
        Phase.OPTIMIZER,
        re.compile(r"\b\w*(?:opt|optim|optimizer|optimizers|scaler)\w*(?:\[[^\]]{1,20}\])?\.step\(|exp_avg"),
    ),
    (Phase.SAVE, re.compile(r"torch\.save\(|\.save_pretrained\(|\.save_checkpoint\(|\.save_state\(")),
    (Phase.GENERATE, re.compile(r"\.generate\(")),
    (
        Phase.LOAD,
        re.compile(
            r"torch\.load\(|\.load_state_dict\(|from_pretrained\(|"
            r"\b\w*(?:model|net|unet|vae|encoder|decoder|pipe|pipeline|weights?)\w*(?:\.\w+)?\.(?:cuda|to|half)\("
        ),
    ),
    (Phase.EVAL, re.compile(r"\b(?:evaluate|validate|run_validation|validation)\(")),
    (
        Phase.FORWARD,
        re.compile(
            r"\b(?:self\.)?\w*(?:model|net|unet|module|backbone|encoder|decoder|critic|generator|discriminator)\("
            r"|\bF\.\w+\(|functional\.\w+\(|\b(?:criterion|loss_fn|loss_func)\("
        ),
    ),
)
#: What a `.step()` is called on when it is an optimizer's, not a scheduler's or an environment's.
_STEPS = re.compile(r"(?:^|[._])(?:opt|optim|optimi[sz]er|scaler|grad_scaler)(?:_?\w{0,12})?\.step$")
_STATEMENT = re.compile(
    r"(?:(?:return|await|yield)\s+)?(?:[\w.,\s*\[\]'\"]{1,120}?\s?[+]?=\s?)?(?:await\s+)?([\w.]{1,120})\("
)


def marker_of_code(frame: Frame) -> Marker | None:
    """What the source line of the innermost frame proves; only the part under the carets where they are printed."""
    code = frame.span or frame.code
    if not code:
        return None
    for phase, pattern in _CODE:
        if pattern.search(code):
            return Marker(phase)
    return None


def marker_of_statement(frame: Frame) -> Marker | None:
    """What a line of the user's own code proves when it is one call: whatever is deeper runs inside that call.

    A line with several statements proves nothing, unless carets show which one ran.
    """
    code = (frame.span or frame.code).strip()
    if not code or ";" in code or _LIBRARY.search(frame.file.replace("\\", "/")):
        return None
    match = _STATEMENT.match(code)
    if match is None:
        return None
    name = match[1].rpartition(".")[2]
    if _EVAL_FUNCTION.match(name):
        return Marker(Phase.EVAL)
    if _GENERATE_FUNCTION.match(name):
        return Marker(Phase.GENERATE)
    if name == "backward":
        return Marker(Phase.BACKWARD)
    if name in ("save_pretrained", "save_checkpoint", "save_model"):
        return Marker(Phase.SAVE)
    if name == "step" and _STEPS.search(match[1]):
        return Marker(Phase.OPTIMIZER)
    return None
