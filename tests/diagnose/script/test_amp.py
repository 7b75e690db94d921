import warnings

import pytest

from tests.diagnose.script.marked import findings, fix_of, found, marked


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import torch\nwith torch.cuda.amp.autocast():\n    pass\n",
            'import torch\nwith torch.amp.autocast("cuda"):\n    pass\n',
        ),
        (
            "import torch\nwith torch.cuda.amp.autocast(False, torch.half): pass\n",
            'import torch\nwith torch.amp.autocast("cuda", enabled=False, dtype=torch.half): pass\n',
        ),
        (
            "from torch.cuda.amp import GradScaler, autocast\nscaler = GradScaler(2.0**16, enabled=True)\n",
            'from torch.amp import GradScaler, autocast\nscaler = GradScaler("cuda", 2.0**16, enabled=True)\n',
        ),
        (
            "from torch.cuda import amp\nscaler = amp.GradScaler()\n",
            'from torch import amp\nscaler = amp.GradScaler("cuda")\n',
        ),
        (
            "from torch.cuda.amp import autocast as ac\n@ac()\ndef f():\n    pass\n",
            'from torch.amp import autocast as ac\n@ac("cuda")\ndef f():\n    pass\n',
        ),
    ],
)
def test_the_new_names(tmp_path, before, after):
    assert {code for _, code in found(tmp_path, before)} == {"SCR104"}
    assert fix_of(tmp_path, before).text == after
    assert found(tmp_path, after) == []
    compile(after, "train.py", "exec")


def test_the_new_call_makes_the_same_context(tmp_path):
    """Positional arguments of torch.cuda.amp.autocast and of torch.amp.autocast are in different orders."""
    import torch

    mended = fix_of(
        tmp_path, "import torch\ncontext = torch.cuda.amp.autocast(True, torch.bfloat16, False)\n"
    )
    scope: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without CUDA, autocast switches itself off and says so
        exec(mended.text, scope)  # noqa: S102 - the text above
    context = scope["context"]
    assert (context.device, context.fast_dtype, context._cache_enabled) == ("cuda", torch.bfloat16, False)


def test_star_arguments_are_left_alone(tmp_path):
    text = "import torch\nwith torch.cuda.amp.autocast(**options):\n    pass\n"
    assert [code for _, code in found(tmp_path, text)] == ["SCR104"]
    assert fix_of(tmp_path, text).text == text


def test_names_that_are_not_deprecated(tmp_path):
    text = """
    import torch
    from torch.cuda.amp import custom_fwd
    with torch.autocast("cuda", dtype=torch.bfloat16):
        pass
    with torch.amp.autocast("cuda"):
        pass
    scaler = torch.amp.GradScaler("cuda")
    class amp:
        autocast = None
    amp.autocast
    """
    assert found(tmp_path, text, "SCR104") == []


@pytest.mark.parametrize(
    ("scaler", "dtype", "fsdp", "code"),
    [
        ("GradScaler('cuda')", "torch.bfloat16", False, "SCR109"),
        ("GradScaler('cuda', enabled=False)", "torch.bfloat16", False, None),
        ("GradScaler('cuda')", "torch.float16", False, None),
        ("GradScaler('cuda')", "torch.float16", True, "SCR109"),
        ("ShardedGradScaler()", "torch.float16", True, None),
    ],
)
def test_a_scaler(tmp_path, scaler, dtype, fsdp, code):
    text = (
        "import torch\nfrom torch.amp import GradScaler\n"
        "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
        "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler\n"
        f"scaler = {scaler}\n"
        + ("model = FSDP(model, auto_wrap_policy=p)\n" if fsdp else "")
        + f"with torch.autocast('cuda', dtype={dtype}):\n    pass\n"
    )
    assert [one for _, one in found(tmp_path, text, "SCR109")] == ([code] if code else [])


def test_small_things(tmp_path):
    text = """
    import torch
    def train(loader):
        for x in loader:
            torch.cuda.empty_cache()  # SCR113
        torch.cuda.empty_cache()
        torch.cuda.memory_summary()  # SCR114
        print(torch.cuda.memory_summary())
        text = torch.cuda.memory_summary()
    """
    assert found(tmp_path, text) == marked(text)
    assert "    print(torch.cuda.memory_summary())" in fix_of(tmp_path, text).text
    assert [str(one.problem.severity) for one in findings(tmp_path, text)] == ["note", "warning"]
    shared = "import torch\nimport vllm\n" + text.replace("\n    ", "\n")
    assert "SCR113" not in {code for _, code in found(tmp_path, shared)}


@pytest.mark.parametrize(
    "text",
    [
        # Handed on, and called without a device where the new one wants it.
        "from torch.cuda.amp import autocast\ncm = autocast if amp else nullcontext\nwith autocast():\n    cm()\n",
        "from torch.cuda.amp import autocast\nwith autocast():\n    pass\nwith autocast(**options):\n    pass\n",
        "from torch.cuda import amp\nwith amp.autocast():\n    f(getattr(amp, name))\n",
        "from torch.cuda.amp import autocast\n__all__ = ['autocast']\nwith autocast():\n    pass\n",
        "from torch.cuda.amp import autocast\ndef f():\n    from torch.cuda.amp import autocast\n    autocast()\n",
        # The old class is the new one's child.
        "import torch\ns = torch.cuda.amp.GradScaler()\nassert isinstance(s, torch.cuda.amp.GradScaler)\n",
        "from torch.cuda.amp import GradScaler\ns = GradScaler()\nassert isinstance(s, GradScaler)\n",
    ],
)
def test_a_use_that_the_new_name_would_break(tmp_path, text):
    assert found(tmp_path, text, "SCR104")
    assert fix_of(tmp_path, text).codes == ()
