"""os.environ["PYTORCH_CUDA_ALLOC_CONF"] = ... after the first use of CUDA."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, argument, text_of
from oomph.evidence.script.variables import environment_key

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
#: Functions of torch.cuda that start the driver, which settles what is visible, and nothing of PyTorch's.
_LOOKS = ("torch.cuda.is_available", "torch.cuda.device_count")
#: Functions that initialize CUDA in PyTorch (_lazy_init), which makes each device's allocator: it reads the settings
#: (c10/cuda/CUDACachingAllocator.cpp, the constructor of DeviceCachingAllocator asks for max_split_size).
_STARTS = tuple(
    f"torch.cuda.{name}"
    for name in (
        "init",
        "set_device",
        "current_device",
        "synchronize",
        "get_device_name",
        "get_device_properties",
        "get_device_capability",
        "mem_get_info",
        "Stream",
    )
)


class SettingsAfterCuda(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR115"
    cause = "settings_after_cuda"
    name = "settings-after-cuda"
    means = (
        "Allocator settings are read once, when PyTorch initializes CUDA, and visible devices once, when the driver "
        "starts. What the script sets afterwards is ignored, without a word."
    )
    decisive_evidence = "In the order of the file, something uses the GPU before the variable is set."
    first_action = "Set it in the shell, or as the script's first lines, before `import torch`."
    verify = "torch.cuda.memory._snapshot()['allocator_settings'] has the value."
    wrong_advice = "Setting it again later, or in the except branch of an OOM."

    def check(self, script: Script) -> Found:
        settings = [
            (node, key)
            for node in script.of(cst.Assign)
            for target in node.targets
            if (key := text_of(environment_key(script, target.target))) in (*_ALLOCATOR, *_VISIBLE)
        ]
        settings += [
            (call, key)  # type: ignore[misc] # a call has its line as an assignment has
            for call in script.called("os.environ.setdefault", "os.putenv")
            if (key := text_of(argument(call, "", 0))) in (*_ALLOCATOR, *_VISIBLE)
        ]
        for node, key in settings:
            use = _first_use(script, node, looks=key in _VISIBLE)
            backend = key in _ALLOCATOR and "backend" in script.code(node) and _imported_before(script, node)
            if use is None and not backend:
                continue
            what = f"line {script.quote(use).line} uses the GPU" if use is not None else "torch is imported"
            yield ScriptProblem(
                says=f"{key} is set after {what}.",
                does=(
                    "It is ignored: the backend of the allocator is chosen when torch is loaded."
                    if use is None
                    else "It is ignored: PyTorch reads it once, when CUDA is initialized."
                    if key in _ALLOCATOR
                    else "It is ignored: CUDA reads it once, when it starts."
                ),
                fix="Set it in the shell, or before `import torch`.",
                subject=str(key),
                severity=Severity.ERROR,
                certainty=Certainty.LIKELY,
                evidence=(script.quote(node), *([script.quote(use)] if use is not None else [])),
            )


def _first_use(script: Script, setting: cst.CSTNode, looks: bool) -> cst.Call | None:
    """The first call before the setting, in its own function or at the module's level, that uses a GPU."""
    places = (script.function(setting), script.module)
    for call in script.calls:
        if script.begin(call) >= script.begin(setting):
            return None
        if script.function(call) not in places or _is_definition(script, call):
            continue
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "cuda":
            return call
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
            if (text_of(argument(call, "device", 0)) or "").startswith("cuda"):
                return call
        if (text_of(argument(call, "device")) or "").startswith("cuda"):
            return call
        if script.means(call.func, *_STARTS) or (looks and script.means(call.func, *_LOOKS)):
            return call
    return None


def _is_definition(script: Script, call: cst.Call) -> bool:
    """Whether the call stands in a decorator or a lambda: it does not run there."""
    return any([isinstance(one, (cst.Lambda, cst.Decorator)) for one in script.above(call)])


def _imported_before(script: Script, setting: cst.CSTNode) -> bool:
    begin = script.begin(setting)
    for node in [*script.of(cst.Import), *script.of(cst.ImportFrom)]:
        if script.begin(node) < begin and "torch" in script.code(node):
            return True
    return False
