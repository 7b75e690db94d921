"""transformers' Llama under its own plan of tensor parallelism, against a trace."""

from __future__ import annotations

import msgspec
import pytest

from oomph.job.model import Framework, Parallel
from oomph.phases import Phase
from tests.predict.parallel.decoder import Sizes, planned
from tests.tracing.ranks.running import traced

PROGRAM = """
from torch.distributed.device_mesh import init_device_mesh
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES, apply_tensor_parallelism

def shard(model, name, style, mesh):
    module = model.get_submodule(name)
    for parameter in [each for each, _ in module.named_parameters(recurse=False)]:
        ALL_PARALLEL_STYLES[style].shard_param(module, parameter, mesh)

torch.cuda.set_device(0)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size={words}, hidden_size={width}, intermediate_size={inner}, num_hidden_layers={layers},
        num_attention_heads={heads}, num_key_value_heads={kv_heads}, use_cache=False,
    ))
torch.set_default_dtype(torch.float32)
model.train()
mesh = init_device_mesh("cuda", ({ranks},))
plan = {{
    name.replace("*", str(layer)): style
    for name, style in model.tp_plan.items() for layer in range({layers})
}}
for name, style in plan.items():
    shard(model, name, style, mesh)
apply_tensor_parallelism(model, mesh, plan)
for step in range(2):
    ids = torch.zeros({batch}, {tokens}, dtype=torch.int64, device="cuda")
    mask = torch.ones({batch}, {tokens}, dtype=torch.int64, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
    torch.cuda.reset_peak_memory_stats()
    loss.backward()
    backward = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    model.zero_grad()
print(backward, sum(each.to_local().numel() if hasattr(each, "to_local") else each.numel()
                    for each in model.parameters()))
"""


@pytest.mark.parametrize(
    ("ranks", "sizes"), [(2, Sizes(kv_heads=8)), (4, Sizes(words=512, kv_heads=8, tokens=2048))]
)
def test_backward_is_that_of_a_trace(ranks, sizes):
    pytest.importorskip("transformers", minversion="5.24")
    fields = {name: getattr(sizes, name) for name in sizes.__dataclass_fields__}
    words = traced(PROGRAM.format(ranks=ranks, **fields), world=ranks).printed.split()
    backward, local = int(words[0]), int(words[1])
    job = msgspec.structs.replace(sizes.job(Parallel(tensor=ranks)), framework=Framework(name="transformers"))
    # The trace has no optimizer: two moments less, in bf16.
    expected = backward + 2 * 2 * local
    assert planned(job)[Phase.BACKWARD] == pytest.approx(expected, rel=0.01)
