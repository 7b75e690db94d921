"""Experiment trackers: nothing is logged anywhere. wandb has a mode for that; the others get stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress.inert import Inert, words

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Module -> the names of it that a script begins with.
_STANDINS: dict[str, tuple[str, ...]] = {
    "mlflow": words(
        "active_run autolog create_experiment delete_tag end_run flush_async_logging get_experiment "
        "get_experiment_by_name last_active_run log_artifact log_artifacts log_dict log_figure log_image log_input "
        "log_metric log_metrics log_model log_param log_params log_table log_text search_runs set_experiment "
        "set_experiment_tag set_registry_uri set_tag set_tags set_tracking_uri start_run MlflowClient"
    ),
    "comet_ml": ("Experiment", "OfflineExperiment", "ExistingExperiment", "start", "init", "login", "end"),
    "neptune": ("init_run", "init", "init_project", "init_model", "Run"),
    "clearml": ("Task", "Logger", "OutputModel", "Dataset"),
    "trackio": ("init", "log", "finish", "login", "alert", "show"),
    "swanlab": ("init", "log", "finish", "login"),
    "aim": ("Run", "Repo"),
    "dvclive": ("Live",),
}
_WRITERS = (
    ("torch.utils.tensorboard", "SummaryWriter"),
    ("torch.utils.tensorboard.writer", "SummaryWriter"),
    ("tensorboardX", "SummaryWriter"),
)


def install(recorder: Recorder) -> None:
    """Replaces what each tracker begins with, once the script imports it."""
    for name, names in _STANDINS.items():
        recorder.patches.when_imported(name, _standins(recorder, name, tuple(names)))
    for module, name in _WRITERS:
        recorder.patches.when_imported(module, _writer(recorder, name))
    recorder.patches.when_imported("wandb", lambda module: _wandb(recorder, module))


def _standins(recorder: Recorder, library: str, names: tuple[str, ...]) -> Callable[[ModuleType], None]:
    def hook(module: ModuleType) -> None:
        for name in names:
            if hasattr(module, name):
                recorder.patches.set(module, name, _said(recorder, library))

    return hook


def _said(recorder: Recorder, library: str) -> Any:
    class Standin(Inert):
        """Is listed when it is first called."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            recorder.suppress(f"log to {library}")
            return super().__call__(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            recorder.suppress(f"log to {library}")
            return found

    return Standin()


def _writer(recorder: Recorder, name: str) -> Callable[[ModuleType], None]:
    class Writer(Inert):
        """A class, because scripts derive theirs from it."""

        def __init__(self, log_dir: Any = None, *_: Any, **kwargs: Any) -> None:
            super().__init__()
            self.log_dir = self.logdir = str(log_dir or kwargs.get("logdir") or "runs")
            recorder.suppress(f"log to TensorBoard in {self.log_dir}")

        def get_logdir(self) -> str:
            return self.log_dir

    Writer.__name__ = Writer.__qualname__ = name

    def hook(module: ModuleType) -> None:
        if hasattr(module, name):
            recorder.patches.set(module, name, Writer)

    return hook


def _wandb(recorder: Recorder, module: ModuleType) -> None:
    """`mode="disabled"` is wandb's own: its run takes everything and writes nothing."""

    def init(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        recorder.suppress("log to wandb")
        return original(*args, **{**kwargs, "mode": "disabled"})

    def nothing(_: Callable[..., Any], *__: Any, **___: Any) -> Any:
        return Inert()

    for name, wrapper in (("init", init), ("login", nothing), ("Api", nothing), ("setup", nothing)):
        if hasattr(module, name):
            recorder.patches.wrap(module, name, wrapper)
