"""What torch.compile's own partitioner saves of a real layer, and what the plan says that it does."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition

from oomph.job.model import Batch, Dimension, Framework, Job, Model, Precision
from oomph.predict.compose import pieces, scopes
from oomph.predict.compose.run import setup_of
from oomph.predict.frameworks import variants

BATCH, SEQUENCE, HIDDEN, WIDE, HEADS, GROUPED = 2, 64, 256, 704, 8, 2
#: Statistics of norms (4 bytes per row) may be saved or made again: they decide nothing.
SMALL = 4 * BATCH * SEQUENCE
#: Families whose projections are not fused: of a view into a fused result, shapes do not tell what is kept.
FAMILIES = {
    "llama": ("LlamaConfig", "llama"),
    "mistral": ("MistralConfig", "mistral"),
    "qwen2": ("Qwen2Config", "qwen2"),
    "qwen3": ("Qwen3Config", "qwen3"),
}
CONFIG = {
    "hidden_size": HIDDEN,
    "intermediate_size": WIDE,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPED,
    "head_dim": HIDDEN // HEADS,
    "num_hidden_layers": 1,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


def really_saved(family: str) -> Counter[int]:
    """Bytes of each tensor that the partitioner hands to backward, without parameters and position embeddings."""
    import transformers

    name, _ = FAMILIES[family]
    config = getattr(transformers, name)(
        **CONFIG, pad_token_id=0, bos_token_id=1, eos_token_id=2, attn_implementation="sdpa"
    )
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    layer, rotary = model.model.layers[0], model.model.rotary_emb
    hidden = torch.randn(BATCH, SEQUENCE, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    cos, sin = rotary(hidden, torch.arange(SEQUENCE)[None])
    parameters = dict(layer.named_parameters())
    saved: Counter[int] = Counter()

    def run(hidden, cos, sin, *weights):
        bound = dict(zip(parameters, weights, strict=True))
        out = torch.func.functional_call(layer, bound, (hidden,), {"position_embeddings": (cos, sin)})
        return out[0] if isinstance(out, tuple) else out

    def partition(module, inputs, **options):
        forward, backward = min_cut_rematerialization_partition(module, inputs, **options)
        outputs = next(node for node in forward.graph.nodes if node.op == "output").args[0]
        weights = {tuple(weight.shape) for weight in parameters.values()}
        weights |= {shape[::-1] for shape in weights} | {tuple(cos.shape)}
        attention = 0
        for node in outputs[1:]:
            value = getattr(node, "meta", {}).get("val")
            if value is None or tuple(value.shape) in weights:
                continue
            size = value.numel() * value.dtype.itemsize
            if tuple(value.shape) == (BATCH, HEADS, SEQUENCE, HIDDEN // HEADS) and "add" not in str(
                node.target
            ):
                # The result of attention is saved as it is, and as the view that the output projection reads.
                attention += 1
            if size > SMALL:
                saved[size] += 1
        saved[BATCH * SEQUENCE * HIDDEN * 2] -= min(attention, 1)
        return forward, backward

    def compiled(module, _):
        return make_boxed_func(module.forward)

    aot_function(run, compiled, compiled, partition_fn=partition)(hidden, cos, sin, *parameters.values())
    return +saved


def planned(family: str) -> Counter[int]:
    """The same of the plan's cut."""
    dimensions = tuple(Dimension(key=key, value=value) for key, value in sorted(CONFIG.items()))
    job = Job(
        model=Model(name="small", family=family, config=dimensions),
        precision=Precision(weights="bf16", compute="bf16"),
        batch=Batch(micro=BATCH, sequence=SEQUENCE),
        framework=Framework(name="transformers"),
        compile=True,
    )
    setup = setup_of(job, variants(job)[0])
    scope = scopes.compiled_scope(setup, pieces.Mode(), pieces.section(setup, "block"))
    assert scope.partition is not None
    found: Counter[int] = Counter()
    for storage in scope.partition.saved:
        kind, size = setup.program.storages[storage][:2]
        bytes_ = scope.values[str(size)]
        if kind in ("own", "in") and bytes_ > SMALL:
            found[bytes_] += 1
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_cut_is_the_partitioners(family):
    assert planned(family) == really_saved(family)
