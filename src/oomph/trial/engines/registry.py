"""Engines by name. Only the one that is asked for is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from oomph.errors import UsageError
from oomph.trial.engine import Engine

#: Name -> (module, class, what to install where the module's library is missing; "" for nothing).
ENGINES: Mapping[str, tuple[str, str, str]] = {
    "local": ("oomph.trial.engines.local", "LocalEngine", ""),
    "trace": ("oomph.trial.engines.trace", "TraceEngine", "oomph[torch]"),
    "slurm": ("oomph.trial.engines.slurm", "SlurmEngine", "oomph[slurm]"),
    "ray": ("oomph.trial.engines.ray", "RayEngine", "oomph[ray]"),
}


def make_engine(name: str, **options: Any) -> Engine:
    """The engine of that name. `options` are its own (`slots`, ...). Raises UsageError for an unknown name, an option
    that it does not have, and a library that is not installed."""
    found = ENGINES.get(name)
    if found is None:
        raise UsageError(f"--engine {name}: there is {', '.join(ENGINES)}.")
    module, kind, extra = found
    try:
        made: Any = getattr(importlib.import_module(module), kind)
    except ImportError as error:
        missing = error.name or ""
        if missing.startswith("oomph."):
            raise UsageError(f"--engine {name} is not part of this oomph.") from error
        raise UsageError(f"--engine {name} needs {missing or 'a library'}: pip install '{extra}'.") from error
    except AttributeError as error:
        raise UsageError(f"--engine {name} is not part of this oomph.") from error
    try:
        engine: Engine = made(**options)
    except TypeError as error:
        raise UsageError(f"--engine {name} does not take all of {', '.join(options)}: {error}.") from error
    except ImportError as error:
        raise UsageError(f"--engine {name} needs {error.name}: pip install '{extra}'.") from error
    return engine
