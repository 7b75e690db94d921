"""The recorded programs against numbers from elsewhere: published counts of parameters, and sums done here."""

from __future__ import annotations

import pytest

from oomph.predict.engine.expression import evaluate
from oomph.predict.programs.load import Program, Variant, load, names

LLAMA_3_8B = {
    "hidden": 4096,
    "intermediate": 14336,
    "heads": 32,
    "kv_heads": 8,
    "groups": 4,
    "head_dim": 128,
    "vocab": 128256,
    "positions": 8192,
    "rotary": 128,
    "b": 2,
    "s": 512,
    "rank": 8,
}
MISTRAL_7B = {**LLAMA_3_8B, "vocab": 32000}
FALCON_7B = {
    **LLAMA_3_8B,
    "hidden": 4544,
    "intermediate": 4 * 4544,
    "heads": 71,
    "kv_heads": 1,
    "groups": 71,
    "head_dim": 64,
    "vocab": 65024,
}
PYTHIA_7B = {
    **LLAMA_3_8B,
    "intermediate": 16384,
    "kv_heads": 32,
    "groups": 1,
    "vocab": 50432,
    "rotary": 32,
}
GEMMA_2B = {
    **LLAMA_3_8B,
    "hidden": 2048,
    "intermediate": 16384,
    "heads": 8,
    "kv_heads": 1,
    "groups": 8,
    "head_dim": 256,
    "vocab": 256000,
}
ITEM = {"bf16": 2, "fp32": 4}


def variant(name: str, heads: str, loss: str, precision: str = "bf16", targets: int = 0) -> Variant:
    """The variant for any batch; `targets`: with so many kinds of adapters (0: none)."""
    found = load(name)
    assert found is not None
    for each in found.variants:
        adapted = each.more.get("lora", {}).get("targets", ())
        if (each.precision, each.heads, each.one, each.more["loss"]) == (precision, heads, False, loss):
            if len(adapted) == targets:
                return each
    raise AssertionError(f"{name} has no such variant")


def parameters(program: Program, dims: dict[str, int], layers: int, adapters: bool = False) -> int:
    """Elements of all parameters (or of adapters alone): those of the block once a layer."""
    total = 0
    seen = set()
    for name, section in program.sections.items():
        for item in section.items:
            if item[0] != "op":
                continue
            for number in tensors(item[2]):
                storage, _, _, dtype = program.tensors[number]
                kind, size, *more = program.storages[storage]
                where = "block" if name == "block" else ""
                if kind != "parameter" or (where, *more) in seen or adapters != ("lora_" in more[0]):
                    continue
                seen.add((where, *more))
                count = evaluate(size, dims) // ITEM[dtype]
                total += count * (layers if where else 1)
    return total


def tensors(value: object) -> list[int]:
    """Numbers of the tensors among an operator's arguments."""
    if isinstance(value, list):
        return [number for each in value for number in tensors(each)]
    return [value["t"]] if isinstance(value, dict) and "t" in value else []


def result_bytes(program: Program, section: str, operator: str, dims: dict[str, int]) -> int:
    """Bytes of the first results of all calls of an operator in a section."""
    total = 0
    for item in program.sections[section].items:
        if item[0] == "op" and item[1].startswith(operator):
            total += evaluate(program.storages[program.tensors[item[3][0]][0]][1], dims)
    return total


@pytest.mark.parametrize(
    ("name", "heads", "loss", "dims", "layers", "published"),
    [
        # https://huggingface.co/meta-llama/Meta-Llama-3-8B: 8,030,261,248 parameters in its safetensors
        ("torchtitan-2024-12-llama", "grouped", "eager_fp32", LLAMA_3_8B, 32, 8_030_261_248),
        ("torchtitan-2025-06-llama", "grouped", "eager_fp32", LLAMA_3_8B, 32, 8_030_261_248),
        ("torchtune-0.3-llama", "grouped", "chunked_ce", LLAMA_3_8B, 32, 8_030_261_248),
        ("litgpt-2024-09-llama", "grouped", "pretrain_ce", LLAMA_3_8B, 32, 8_030_261_248),
        ("litgpt-2024-04-llama", "grouped", "pretrain_ce", LLAMA_3_8B, 32, 8_030_261_248),
        ("litgpt-0.5-llama", "grouped", "pretrain_ce", LLAMA_3_8B, 32, 8_030_261_248),
        # Mistral-7B-v0.1: 7,241,732,096
        ("transformers-4.48-mistral", "grouped", "eager_fp32", MISTRAL_7B, 32, 7_241_732_096),
        ("transformers-4.45-mistral", "grouped", "eager_fp32", MISTRAL_7B, 32, 7_241_732_096),
        # Mixtral-8x7B-v0.1: 46,702,792,704
        ("transformers-4.48-mixtral", "grouped", "eager_fp32", MISTRAL_7B, 32, 46_702_792_704),
        ("transformers-4.45-mixtral", "grouped", "eager_fp32", MISTRAL_7B, 32, 46_702_792_704),
        # falcon-7b: 6,921,720,704 with a tied head; LitGPT has a head of its own, 65,024 x 4,544 more
        ("litgpt-2024-09-falcon", "single", "pretrain_ce", FALCON_7B, 32, 6_921_720_704 + 65_024 * 4_544),
        # Pythia-6.9B's card: 6,857,302,016
        ("litgpt-2024-09-gpt_neox", "equal", "pretrain_ce", PYTHIA_7B, 32, 6_857_302_016),
        # gemma-2b: 2,506,172,416 with a tied head
        ("litgpt-2024-09-gemma", "single", "pretrain_ce", GEMMA_2B, 18, 2_506_172_416 + 256_000 * 2_048),
    ],
)
def test_parameters_are_those_that_are_published(
    name: str, heads: str, loss: str, dims: dict[str, int], layers: int, published: int
) -> None:
    program = variant(name, heads, loss).program()
    assert parameters(program, dims, layers) == published


@pytest.mark.parametrize("name", ["litgpt-2024-09-llama", "litgpt-0.5-llama", "torchtune-0.3-llama"])
def test_adapters_on_queries_and_values(name: str) -> None:
    """PEFT prints 3,407,872 for Llama-3-8B with r=8 on q_proj and v_proj."""
    program = variant(name, "grouped", "chunked_ce", targets=2).program()
    assert parameters(program, LLAMA_3_8B, 32, adapters=True) == 3_407_872


def test_log_softmax_of_each_loss() -> None:
    b, s, v = 2, 512, 128256
    for name, heads, loss, rows in (
        # the last position has no label
        ("litgpt-2024-09-llama", "grouped", "full_finetune_ce", b * (s - 1)),
        ("litgpt-2024-09-llama", "grouped", "pretrain_ce", b * s),
        ("litgpt-2024-04-llama", "grouped", "whole_ce", b * s),
        ("torchtitan-2024-12-llama", "grouped", "eager_fp32", b * s),
        ("torchtune-0.3-llama", "grouped", "chunked_ce", b * s),
        ("transformers-4.45-llama", "grouped", "eager_fp32", b * (s - 1)),
        ("transformers-4.48-llama", "grouped", "eager_fp32", b * (s - 1)),
    ):
        program = variant(name, heads, loss).program()
        assert result_bytes(program, "loss", "aten._log_softmax", LLAMA_3_8B) == 4 * rows * v, name
    program = variant("litgpt-2024-09-llama", "grouped", "eager_bf16").program()
    assert result_bytes(program, "loss", "aten._log_softmax", LLAMA_3_8B) == 2 * b * s * v


def test_logits_that_the_loop_holds() -> None:
    """LitGPT holds fp32 logits, of the last chunk a shifted view; torchtitan and torchtune hold nothing."""
    b, s, v = 2, 512, 128256
    for loss, targets in (("pretrain_ce", 0), ("full_finetune_ce", 0), ("chunked_ce", 2)):
        program = variant("litgpt-2024-09-llama", "grouped", loss, targets=targets).program()
        held = {program.tensors[number][0] for name, number in program.kept.items() if name != "loss"}
        assert sum(evaluate(program.storages[each][1], LLAMA_3_8B) for each in held) == 4 * b * s * v, loss
    for name, loss in (
        ("torchtitan-2024-12-llama", "eager_fp32"),
        ("torchtune-0.3-llama", "chunked_ce"),
        ("litgpt-2024-04-llama", "whole_ce"),
    ):
        assert list(variant(name, "grouped", loss).program().kept) == ["loss"]


def test_old_classes_hold_fp32_logits_and_later_ones_the_models_own() -> None:
    b, s, v = 2, 512, 128256
    for name, item in (("transformers-4.45-llama", 4), ("transformers-4.48-llama", 2)):
        program = variant(name, "grouped", "eager_fp32").program()
        storage = program.tensors[program.kept["logits"]][0]
        assert evaluate(program.storages[storage][1], LLAMA_3_8B) == item * b * s * v


def test_the_norm_of_litgpt_before_and_after_july_2024() -> None:
    """What the product with the weight needs for the weight's gradient: b x s x hidden in bf16, then in fp32."""
    for name, item in (("litgpt-2024-04-llama", 2), ("litgpt-2024-09-llama", 4)):
        program = variant(name, "grouped", "pretrain_ce").program()
        weights = set()
        needed = []
        for op in program.sections["block"].items:
            if op[0] != "op":
                continue
            used = tensors(op[2])
            named = [program.storages[program.tensors[number][0]] for number in used]
            if op[1].startswith("aten._to_copy") and named[0][2:] == ["norm_1.weight"]:
                weights.add(op[3][0])
            if op[1].startswith("aten.mul") and (
                weights & set(used) or any(each[2:] == ["norm_1.weight"] for each in named)
            ):
                needed += [each for number, each in zip(used, named, strict=True) if each[0] == "own"]
        sizes = [evaluate(each[1], LLAMA_3_8B) for each in needed]
        assert max(sizes) == item * 2 * 512 * 4096, name


def test_litgpt_expands_keys_and_values_before_attention() -> None:
    program = variant("litgpt-2024-09-llama", "grouped", "pretrain_ce").program()
    (call,) = [
        item
        for item in program.sections["block"].items
        if item[0] == "op" and "scaled_dot_product" in item[1]
    ]
    shapes = [
        [evaluate(size, LLAMA_3_8B) for size in program.tensors[number][1]] for number in tensors(call[2][:3])
    ]
    assert shapes == [[2, 32, 512, 128]] * 3


def test_an_even_router_gives_each_expert_its_share() -> None:
    """Eight experts, two for each token: a quarter of the tokens each."""
    program = variant("transformers-4.48-mixtral", "grouped", "eager_fp32").program()
    rows = 0
    for item in program.sections["block"].items:
        if item[0] == "op" and item[1].startswith("aten.silu"):
            rows += evaluate(program.tensors[item[3][0]][1][0], LLAMA_3_8B)
    assert rows == 2 * 2 * 512


def test_compiled_losses_hold_the_models_logits_alone() -> None:
    """Forward makes no more than single numbers; backward's kernel, the gradient in the logits' type."""
    b, s, v = 2, 512, 128256
    for name, loss in (
        ("torchtitan-2025-06-llama", "compiled_ce"),
        ("torchtune-0.3-llama", "compiled_chunked_ce"),
    ):
        program = variant(name, "grouped", loss).program()
        items = [item for item in program.sections["loss"].items if item[0] == "op"]
        read = {program.tensors[tensors(item[2])[0]][0] for item in items if "nll_loss" in item[1]}
        assert sum(evaluate(program.storages[each][1], LLAMA_3_8B) for each in read) == 2 * b * s * v
        made = [number for item in items if "nll_loss" in item[1] for number in item[3]]
        assert all(evaluate(program.storages[program.tensors[each][0]][1], LLAMA_3_8B) <= 4 for each in made)


@pytest.mark.parametrize("name", [each for each in names() if not each.startswith("transformers-")])
def test_views_of_parameters_lie_on_them(name: str) -> None:
    found = load(name)
    assert found is not None
    for each in found.variants:
        program = each.program()
        for section in program.sections.values():
            for item in section.items:
                if item[0] == "op" and item[1] == "aten.t.default":
                    (source,) = tensors(item[2])
                    assert program.tensors[source][0] == program.tensors[item[3][0]][0]


@pytest.mark.parametrize(
    "name", ["torchtitan-2024-12-llama", "torchtitan-2025-06-llama", "litgpt-2024-09-llama"]
)
def test_half_precision_runs_flash_attention(name: str) -> None:
    """What torchtitan's selective checkpoints keep, and what these frameworks ask for before Blackwell."""
    program = variant(name, "grouped", "eager_fp32" if "titan" in name else "pretrain_ce").program()
    found = [
        item[1] for item in program.sections["block"].items if item[0] == "op" and "scaled_dot" in item[1]
    ]
    assert found == ["aten._scaled_dot_product_flash_attention.default"]
