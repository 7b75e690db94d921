"""Phases that libraries have functions for: saving, generating, whole evaluations of a trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording

#: Module, then class or "" and name of what is called, and the phase that it is. Whatever a release does not have is
#: passed over. What a script has imported by name before the recording began is called past this.
FUNCTIONS = (
    ("torch", "", "save", Phase.SAVE),
    ("torch.distributed.checkpoint", "", "save", Phase.SAVE),
    ("torch.distributed.checkpoint", "", "async_save", Phase.SAVE),
    ("torch.distributed.checkpoint.state_dict", "", "get_state_dict", Phase.SAVE),
    ("torch.distributed.checkpoint.state_dict", "", "get_model_state_dict", Phase.SAVE),
    ("torch.distributed.checkpoint.state_dict", "", "get_optimizer_state_dict", Phase.SAVE),
    ("transformers.modeling_utils", "PreTrainedModel", "save_pretrained", Phase.SAVE),
    ("transformers.trainer", "Trainer", "_save_checkpoint", Phase.SAVE),
    ("transformers.trainer", "Trainer", "save_model", Phase.SAVE),
    ("transformers.trainer", "Trainer", "evaluation_loop", Phase.EVAL),
    ("transformers.generation.utils", "GenerationMixin", "generate", Phase.GENERATE),
    ("peft.peft_model", "PeftModel", "save_pretrained", Phase.SAVE),
    ("accelerate.accelerator", "Accelerator", "save_state", Phase.SAVE),
    ("accelerate.accelerator", "Accelerator", "save_model", Phase.SAVE),
    ("accelerate.accelerator", "Accelerator", "get_state_dict", Phase.SAVE),
    ("safetensors.torch", "", "save_file", Phase.SAVE),
    ("safetensors.torch", "", "save_model", Phase.SAVE),
)


_STORAGES = frozenset(("UntypedStorage", "TypedStorage"))


def install(recording: Recording) -> None:
    """Watches each of them from when its module is imported."""
    for module, owner, name, phase in FUNCTIONS:
        recording.patches.when_there(module, _Watch(recording, owner, name, phase))
    recording.patches.look()


class _Watch:
    def __init__(self, recording: Recording, owner: str, name: str, phase: Phase) -> None:
        self._recording, self._owner, self._name, self._phase = recording, owner, name, phase

    def __call__(self, module: Any) -> None:
        owner = getattr(module, self._owner, None) if self._owner else module
        if owner is not None and callable(getattr(owner, self._name, None)):
            self._recording.patches.wrap(owner, self._name, self._call)

    def _call(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        recording = self._recording
        if args and type(args[0]).__name__ in _STORAGES:  # how PyTorch pickles a single storage
            return original(*args, **kwargs)
        opened = recording.enter(self._phase, where=self._name.lstrip("_"))
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            recording.leave(opened, error)
            raise
        recording.leave(opened)
        return result
