"""OOM205: a checkpoint on the GPU, while it is loaded and after."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import FORWARD, MODEL_TO, causes, failed, finding, oom, steps, top

TORCH_LOAD = (
    "train.py:61 in main: ckpt = torch.load(path)",
    "torch/serialization.py:1601 in load: return _load(",
    "torch/serialization.py:2221 in _load: result = unpickler.load()",
    "torch/serialization.py:540 in default_restore_location: result = fn(storage, location)",
    "torch/serialization.py:477 in _deserialize: return obj.to(device=device)",
)
PRETRAINED = (
    "train.py:30 in main: model = AutoModelForCausalLM.from_pretrained(name, device_map='auto')",
    "transformers/modeling_utils.py:4274 in from_pretrained: model = cls._load_pretrained_model(",
    "transformers/modeling_utils.py:900 in _load_state_dict_into_meta_model: set_module_tensor_to_device(",
    "accelerate/utils/modeling.py:336 in set_module_tensor_to_device: new_value = value.to(device)",
)
RESUMING = "Resuming from checkpoint runs/a/step_4000.pt\n"
ONTO_GPU = "state = torch.load('runs/a/step_4000.pt', map_location='cuda:0')\n"


def test_torch_load_puts_storages_back_on_the_gpu() -> None:
    diagnosis = failed(TORCH_LOAD, oom())
    found = finding(diagnosis, "resume_checkpoint")
    assert top(diagnosis) == "resume_checkpoint"
    assert found.certainty is Certainty.LIKELY
    assert found.actions[0] == "map-location-cpu"
    assert "asking for 2.00 GiB" in found.says


def test_pretrained_weights_are_not_a_resume() -> None:
    diagnosis = failed(PRETRAINED, oom())
    assert top(diagnosis) == "static_state_too_big"
    assert "resume_checkpoint" not in causes(diagnosis)


def test_moving_a_model_is_not_a_resume() -> None:
    assert "resume_checkpoint" not in causes(failed(MODEL_TO, oom()))


def test_the_first_forward_after_a_resume_is_possible() -> None:
    diagnosis = failed(FORWARD, oom(), before=RESUMING)
    assert finding(diagnosis, "resume_checkpoint").certainty is Certainty.POSSIBLE
    assert finding(diagnosis, "resume_checkpoint").actions[0] == "drop-checkpoint-dict"


def test_a_checkpoint_loaded_onto_the_gpu_makes_it_likely() -> None:
    diagnosis = failed(FORWARD, oom(), before=RESUMING + ONTO_GPU)
    assert top(diagnosis) == "resume_checkpoint"
    assert finding(diagnosis, "resume_checkpoint").certainty is Certainty.LIKELY


def test_a_failure_long_after_a_resume_has_nothing_to_do_with_it() -> None:
    diagnosis = failed(FORWARD, oom(), before=RESUMING + ONTO_GPU + steps(4001, 4200))
    assert top(diagnosis) == "activations"
    assert "resume_checkpoint" not in causes(diagnosis)
