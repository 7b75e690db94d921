"""Checkpoints of torch.distributed and of the libraries: what they do on the device runs, and is the phase `save`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Methods that save: module, class, method. What they write goes to the overlay.
_SAVERS = (
    ("transformers.modeling_utils", "PreTrainedModel", "save_pretrained"),
    ("transformers.trainer", "Trainer", "_save_checkpoint"),
    ("transformers.trainer", "Trainer", "save_model"),
    ("transformers.tokenization_utils_base", "PreTrainedTokenizerBase", "save_pretrained"),
    ("peft.peft_model", "PeftModel", "save_pretrained"),
    ("accelerate.accelerator", "Accelerator", "save_state"),
    ("accelerate.accelerator", "Accelerator", "save_model"),
    ("accelerate.accelerator", "Accelerator", "get_state_dict"),
    ("lightning.pytorch.trainer.trainer", "Trainer", "save_checkpoint"),
    ("pytorch_lightning.trainer.trainer", "Trainer", "save_checkpoint"),
    ("lightning.fabric.fabric", "Fabric", "save"),
    ("lightning_fabric.fabric", "Fabric", "save"),
    ("diffusers.models.modeling_utils", "ModelMixin", "save_pretrained"),
    ("diffusers.pipelines.pipeline_utils", "DiffusionPipeline", "save_pretrained"),
    ("diffusers.training_utils", "EMAModel", "save_pretrained"),
    ("sentence_transformers.SentenceTransformer", "SentenceTransformer", "save_pretrained"),
)
_DISTRIBUTED = "torch.distributed.checkpoint"


def install(recorder: Recorder) -> None:
    """Wraps the savers of every library that the script imports."""

    def save(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with recorder.phase(Phase.SAVE):
            return original(*args, **kwargs)

    def hook(kind: str, method: str) -> Callable[[ModuleType], None]:
        def wrap(module: ModuleType) -> None:
            owner = getattr(module, kind, None)
            if owner is not None and method in vars(owner):
                recorder.patches.wrap(owner, method, save)

        return wrap

    for module, kind, method in _SAVERS:
        recorder.patches.when_imported(module, hook(kind, method))
    sharded = _Sharded(recorder)
    recorder.patches.when_imported(_DISTRIBUTED, sharded.install)


class _Sharded:
    """`torch.distributed.checkpoint`: shards are copied to the host, which takes no device memory. What objects do in
    their `state_dict` may take some, so that is called as the real one does (state_dict_saver.py)."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.saved: set[str] = set()

    def install(self, module: ModuleType) -> None:
        patches = self.recorder.patches
        for owner in (module, getattr(module, "state_dict_saver", None)):
            for name, wrapper in (
                ("save", self.save),
                ("async_save", self.async_save),
                ("save_state_dict", self.save),
            ):
                if owner is not None and hasattr(owner, name):
                    patches.wrap(owner, name, wrapper)
        for owner in (module, getattr(module, "state_dict_loader", None)):
            for name in ("load", "load_state_dict"):
                if owner is not None and hasattr(owner, name):
                    patches.wrap(owner, name, self.load)

    def save(self, _: Callable[..., Any], state_dict: Any, *args: Any, **kwargs: Any) -> None:
        with self.recorder.phase(Phase.SAVE):
            _states(state_dict)
        place = _place(args, kwargs)
        self.saved.add(place)
        self.recorder.suppress(f"write the distributed checkpoint {place}")

    def async_save(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.save(original, *args, **kwargs)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def load(self, original: Callable[..., Any], state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if _place(args, kwargs) not in self.saved:
            return original(state_dict, *args, **kwargs)
        with self.recorder.phase(Phase.LOAD):
            for key, state in _states(state_dict).items():
                if hasattr(state_dict[key], "load_state_dict"):
                    state_dict[key].load_state_dict(state)
        return None


def _states(state_dict: Any) -> dict[Any, Any]:
    return {
        key: value.state_dict() if hasattr(value, "state_dict") else value
        for key, value in state_dict.items()
    }


def _place(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What names the checkpoint: an id, or the path of a writer or reader."""
    named = kwargs.get("checkpoint_id")
    if named is None:
        holder = kwargs.get("storage_writer") or kwargs.get("storage_reader") or next(iter(args), None)
        named = getattr(holder, "path", None) or getattr(holder, "checkpoint_id", None) or holder
    return str(named) if named is not None else "without a name"
