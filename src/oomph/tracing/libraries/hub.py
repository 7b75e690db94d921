"""The Hugging Face hub without a network: configurations from a local folder, the local cache, or shipped with oomph.

transformers reads every file of a model through `cached_files`. Here a local folder and the local cache are asked as
always; a well-known model's config.json comes from `known`; what else is missing is said in one sentence.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.errors import InputError
from oomph.job import models as known
from oomph.tracing.libraries import during

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
_QUIET = (
    "_raise_exceptions_for_gated_repo",
    "_raise_exceptions_for_missing_entries",
    "_raise_exceptions_for_connection_errors",
)


class ModelNotHereError(InputError, OSError):
    """A model of which neither the configuration nor anything else is on this machine. Also an OSError: that is what
    transformers raises itself, and lets through."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the script loads the model '{name}', and its config.json is neither in a local folder nor in the local "
            "Hugging Face cache, and is not shipped with oomph: give the script a folder with the model's "
            "config.json in place of the name (no weights are needed)"
        )


def install(recorder: Recorder) -> None:
    """Everything that asks the hub for a file stays on this machine until the trace ends."""
    go_offline(recorder)
    shipped = _Shipped(recorder)

    def hook(module: ModuleType) -> None:
        if hasattr(module, "cached_files"):
            during.wrap(recorder, module, "cached_files", shipped.cached_files)

    recorder.patches.when_imported("transformers.utils.hub", hook)


def go_offline(recorder: Recorder) -> None:
    """No library of Hugging Face asks the network: the answers would differ between machines, or take long to fail."""
    for name in _OFFLINE:
        set_environment(recorder, name, "1")

    def constants(module: ModuleType) -> None:
        recorder.patches.set(module, "HF_HUB_OFFLINE", True)

    recorder.patches.when_imported("huggingface_hub.constants", constants)

    def datasets_config(module: ModuleType) -> None:
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
            if hasattr(module, name):
                recorder.patches.set(module, name, True)

    recorder.patches.when_imported("datasets.config", datasets_config)


def set_environment(recorder: Recorder, name: str, value: str) -> None:
    """An environment variable until the trace ends."""
    before = os.environ.get(name)
    os.environ[name] = value

    def undo() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    recorder.patches.when_undone(undo)


def is_local(name: object) -> bool:
    """Whether the name is a folder or a file of this machine."""
    return Path(str(name)).exists()


class _Shipped:
    """Answers what the cache cannot. Files are written to a temporary folder, which goes when the trace ends."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def cached_files(
        self,
        original: Callable[..., Any],
        path_or_repo_id: Any,
        filenames: list[str],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """In place of transformers' `cached_files`."""
        name = str(path_or_repo_id)
        if is_local(name):
            return original(path_or_repo_id, filenames, *args, **kwargs)
        quiet = {**kwargs, **dict.fromkeys(_QUIET, False), "local_files_only": True}
        try:
            found = original(path_or_repo_id, filenames, *args, **quiet)
        except Exception:  # noqa: BLE001 - whatever the cache cannot give is asked for below
            found = None
        if found:
            return found
        part = kwargs.get("subfolder")
        model = known.find(f"{name}/{part}" if part else name)
        here = [path for file in filenames for path in [self._file(model, Path(file).name)] if path]
        if here:
            return here
        if model is None and any(Path(file).name == "config.json" for file in filenames):
            raise ModelNotHereError(name)
        if kwargs.get("_raise_exceptions_for_missing_entries", True):
            raise OSError(f"{name} has no file {filenames[0]} on this machine, and a trace asks no network.")
        return None

    def _file(self, model: known.KnownModel | None, file: str) -> str | None:
        """Where a shipped file of a model lies, None when there is none."""
        if model is None:
            return None
        content: dict[str, Any]
        if file == "config.json":
            content = model.config
            self._recorder.assume(
                f"the configuration of {model.name} is the one that oomph ships (public config.json)"
            )
        elif file == "preprocessor_config.json" and model.config.get("model_type") == "vit":
            side = model.config["image_size"]
            content = {"image_processor_type": "ViTImageProcessor", "size": {"height": side, "width": side}}
        else:
            return None
        path = Path(self._root(), model.name.replace("/", "--"), file)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    def _root(self) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="oomph-hub-")
            self._recorder.patches.when_undone(self._folder.cleanup)
        return self._folder.name
