"""Everything that is changed while a trace runs, in order."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from oomph.tracing.recorder.recorder import Recorder

#: Packages of patches: the package, or each of its modules, has `install(recorder)`.
_PACKAGES = (
    "oomph.tracing.device.answers",
    "oomph.tracing.frontend",
    "oomph.tracing.kernels.attention",
    "oomph.tracing.kernels.missing",
    "oomph.tracing.libraries",
    "oomph.tracing.ranks",
    "oomph.tracing.suppress",
)


def install_all(recorder: Recorder, mode: Any, fake_mode: Any) -> None:
    """Installs the recorder's own hooks, then what each package has."""
    from oomph.tracing.patches import (
        default_type,
        foreach,
        indices,
        parameters,
        pickling,
        showing,
        storages,
        tensors,
        threads,
        untraced,
    )
    from oomph.tracing.recorder import phases, shapeless

    phases.install(recorder, mode)
    parameters.install(recorder, fake_mode)
    tensors.install(recorder)
    showing.install(recorder)
    pickling.install(recorder)
    storages.install(recorder, mode)
    foreach.install(recorder)
    threads.install(recorder, mode)
    shapeless.install(recorder)
    default_type.install(recorder)
    indices.install(recorder)
    untraced.install(recorder)
    for name in _PACKAGES:
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        whole = getattr(package, "install", None)
        if whole is not None:
            whole(recorder)
            continue
        for module in pkgutil.iter_modules(package.__path__):
            install = getattr(importlib.import_module(f"{name}.{module.name}"), "install", None)
            if install is not None:
                install(recorder)
