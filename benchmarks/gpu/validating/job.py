"""One job, as a person would write it; the recorder is two lines of it.

python job.py WORK.json --device cuda --out FOLDER     recorded, with a memory snapshot
python job.py WORK.json --device cuda                  alone: what `oomph trace` runs
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

#: Entries of PyTorch's memory history: more than any of these jobs makes.
HISTORY = 3_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from benchmarks.gpu.validating.works import read

    work = read(options.work)
    if options.out is None:
        train(work, options.device, None)
        return
    import torch

    import oomph

    if options.device == "cuda":
        torch.cuda.init()
    run = oomph.record(
        run_dir=options.out / "run", every=0, history=HISTORY, warn=False, arguments={"validate": work.name}
    )
    with run:
        train(work, options.device, run)
        why = run.device.dump_snapshot(options.out / "snapshot.pickle")
        facts = _facts(torch, options.device, run.device)
    (options.out / "facts.json").write_text(json.dumps({**facts, "snapshot": why}), encoding="utf-8")


def train(work: Any, device: str, run: Any) -> None:
    """A few steps and an evaluation."""
    import torch

    torch.manual_seed(0)
    model = _model(work, device)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=1e-5, fused=work.impl == "fused", foreach=work.impl == "foreach"
    )
    if run is not None:
        run.watch(model, optimizer)
    generator = torch.Generator().manual_seed(1)
    size = (work.micro, work.sequence)
    model.train()
    for _ in range(work.steps):
        tokens = torch.randint(0, work.config["vocab_size"], size, generator=generator).to(device)
        with _autocast(torch, work, device):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad(), _autocast(torch, work, device):
        tokens = torch.randint(0, work.config["vocab_size"], size, generator=generator).to(device)
        model(input_ids=tokens, labels=tokens)
    if device == "cuda":
        torch.cuda.synchronize()


def _model(work: Any, device: str) -> Any:
    """Made on the device from its configuration: no weights and no network."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    table = {key: value for key, value in work.config.items() if key not in ("model_type", "architectures")}
    for key in ("torch_dtype", "dtype", "transformers_version"):
        table.pop(key, None)
    config = AutoConfig.for_model(work.config["model_type"], **table)
    dtype = torch.bfloat16 if work.weights == "bf16" else torch.float32
    named = "dtype" if int(importlib.metadata.version("transformers").split(".")[0]) >= 5 else "torch_dtype"
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", **{named: dtype})
    if work.method == "lora":
        from peft import LoraConfig, get_peft_model

        from benchmarks.gpu.validating.works import LORA_RANK, LORA_TARGETS

        adapters = LoraConfig(r=LORA_RANK, target_modules=list(LORA_TARGETS), lora_dropout=0.0)
        if work.checkpointing:
            model.enable_input_require_grads()
        model = get_peft_model(model, adapters)
    if work.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def _autocast(torch: Any, work: Any, device: str) -> Any:
    if not work.autocast:
        return contextlib.nullcontext()
    return torch.autocast(device, dtype=torch.bfloat16)


def _facts(torch: Any, device: str, probe: Any) -> dict[str, Any]:
    """What the run directory does not say."""
    versions = {}
    for name in ("torch", "transformers", "peft"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    facts: dict[str, Any] = {"versions": versions, "gpu": probe.name}
    if device == "cuda":
        facts["cuda"] = torch.version.cuda
        # What the script itself reads, which the recorder's own phases must not have changed.
        facts["script_max_allocated"] = torch.cuda.max_memory_allocated()
        facts["script_max_reserved"] = torch.cuda.max_memory_reserved()
    return facts


if __name__ == "__main__":
    main()
