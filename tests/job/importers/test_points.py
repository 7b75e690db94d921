from __future__ import annotations

import contextlib
import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.errors import OomphError, UsageError
from oomph.job.importers.points import from_point
from oomph.job.model import (
    Batch,
    Checkpointing,
    Dimension,
    Framework,
    Hardware,
    Job,
    Lora,
    Method,
    Model,
    Optimizer,
    Parallel,
    Precision,
    Quantization,
)

SHARED = Path(os.environ.get("OOMPH_CONFORMANCE") or Path(__file__).parents[3].parent / "shared")

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "rope_scaling": {"factor": 8.0},
    "architectures": ["LlamaForCausalLM"],
    "sliding_window": None,
}
ROW = {
    "id": "a-1",
    "source": "somebody's table [owner/repo/table.md@1]",
    "trust": "high",
    "model": {"name": "small", "config": "small.json"},
    "gpu": "A100-SXM4-80GB",
    "num_gpus": 8,
    "parallel": {
        "strategy": "fsdp1_full_shard",
        "data": 2,
        "tensor": 2,
        "context": 2,
        "pipeline": 1,
        "cpu_offload": "none",
    },
    "method": "qlora",
    "lora": {"rank": 16, "target_modules": ["q_proj", "v_proj"], "dtype": "fp32"},
    "quantization": "nf4_double",
    "precision": {
        "weights": "bf16",
        "compute": "bf16",
        "autocast": True,
        "master_weights": None,
        "grads": "fp32",
    },
    "optimizer": {"name": "adamw", "impl": "bnb_paged_32bit", "state_dtype": "fp32", "offload": True},
    "checkpointing": "full",
    "activation_offload": False,
    "attention": "flash_attention_2",
    "loss": "eager_fp32",
    "compile": False,
    "micro_batch": 4,
    "seq_len": 4096,
    "image_size": None,
    "grad_accum": 2,
    "metric": "max_allocated",
    "value_bytes": 60306944512,
    "uncertainty": None,
    "framework": "torch 2.4.1, transformers 4.45.2",
    "inferred": [],
}


@pytest.fixture
def configs(tmp_path):
    (tmp_path / "small.json").write_text(json.dumps(CONFIG))
    return tmp_path


def row(**changes):
    """ROW with changes: `parallel__tensor=4` changes row["parallel"]["tensor"]."""
    changed: dict[str, Any] = copy.deepcopy(ROW)
    for path, value in changes.items():
        *parents, last = path.split("__")
        table: dict[str, Any] = changed
        for parent in parents:
            table = table[parent]
        table[last] = value
    return changed


def test_every_field_of_a_row_is_in_the_job(configs):
    assert from_point(ROW, configs) == Job(
        model=Model(
            name="small",
            family="llama",
            config=(
                Dimension(key="architectures", value=("LlamaForCausalLM",)),
                Dimension(key="hidden_size", value=64),
                Dimension(key="model_type", value="llama"),
                Dimension(key="num_hidden_layers", value=2),
                Dimension(key="rope_scaling.factor", value=8.0),
                Dimension(key="sliding_window", value=None),
            ),
        ),
        method=Method(
            name="qlora",
            lora=Lora(rank=16, targets=("q_proj", "v_proj"), dtype="fp32"),
            quantization=Quantization(kind="nf4", double=True),
        ),
        precision=Precision(weights="bf16", compute="bf16", autocast=True, grads="fp32"),
        batch=Batch(micro=4, sequence=4096, accumulation=2),
        optimizer=Optimizer(name="adamw", impl="bnb_paged", state="fp32", offload="paged"),
        checkpointing=Checkpointing(mode="full"),
        parallel=Parallel(strategy="fsdp1_full_shard", data=2, tensor=2, context=2),
        attention="flash_attention_2",
        loss="eager_fp32",
        framework=Framework(name="transformers", versions=(("torch", "2.4.1"), ("transformers", "4.45.2"))),
        hardware=Hardware(gpu="A100-SXM4-80GB", gpus=8),
    )


def test_full_training_with_everything_on_the_host(configs):
    job = from_point(
        row(
            method="full",
            lora=None,
            quantization=None,
            parallel__cpu_offload="all",
            optimizer={"name": "adamw", "impl": "fused", "state_dtype": "bf16", "offload": True},
            gpu="unspecified",
            precision__master_weights="fp32",
            seq_len=None,
            image_size=224,
        ),
        configs,
    )
    assert job.parallel.offload_parameters
    assert job.optimizer.offload == "cpu"
    assert job.hardware.gpu == ""
    assert job.precision.master
    assert (job.batch.sequence, job.batch.image_size) == (None, 224)


def test_an_optimizer_on_the_host_leaves_the_parameters(configs):
    job = from_point(
        row(parallel__strategy="zero2", parallel__cpu_offload="optimizer", optimizer__impl="fused"), configs
    )
    assert (job.parallel.offload_parameters, job.optimizer.offload) == (False, "cpu")


def test_an_8bit_optimizer_in_backward_is_paged(configs):
    optimizer = {"name": "adamw", "impl": "in_backward", "state_dtype": "int8", "offload": True}
    job = from_point(row(optimizer=optimizer), configs)
    assert job.optimizer == Optimizer(impl="in_backward", state="int8", offload="paged")


def test_sgd_with_a_moment_has_momentum(configs):
    sgd = {"name": "sgd", "impl": "foreach", "state_dtype": "fp32", "offload": False}
    assert from_point(row(optimizer=sgd), configs).optimizer.momentum > 0
    assert from_point(row(optimizer=sgd | {"state_dtype": None}), configs).optimizer.momentum == 0


def test_what_litgpt_does_beyond_the_row(configs):
    job = from_point(
        row(source="table [Lightning-AI/litgpt/config_hub/a.yaml@1]", framework="litgpt (2024 releases)"),
        configs,
    )
    assert job.framework == Framework(name="litgpt", versions=(("litgpt-date", "2024"),))
    # config_hub's files: lora_dropout 0.05; bitsandbytes' plugin of Fabric replaces the head as well.
    assert job.method.lora.dropout == 0.05
    assert job.method.quantization.head


def test_packed_sequences_and_dropout_of_fms(configs):
    job = from_point(row(source="CSVs [foundation-model-stack/fms-acceleration/a.csv@1]"), configs)
    assert job.batch.packed
    assert job.method.lora.dropout == 0.1
    assert job.framework.name == "fms-acceleration"


def test_tensor_parallel_in_torchtitan_splits_the_sequence(configs):
    assert from_point(row(framework="torchtitan 9dec370"), configs).parallel.sequence_parallel
    assert not from_point(row(framework="minimind script 2026"), configs).parallel.sequence_parallel


def test_units_are_those_that_the_row_tells(configs):
    told = row(uncertainty="GB is 1e9; embedding and head are their own FSDP units")
    assert from_point(told, configs).parallel.units == "blocks_and_embeddings"
    assert from_point(ROW, configs).parallel.units == "blocks"


def test_every_nth_block(configs):
    assert from_point(row(checkpointing="every_2"), configs).checkpointing == Checkpointing(
        mode="every_n", every=2
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "ia3"}, "method 'ia3'"),
        ({"parallel__strategy": "zero++"}, "parallel.strategy 'zero++'"),
        ({"parallel__expert": 2}, "parallel.expert"),
        ({"quantization": "hqq"}, "quantization 'hqq'"),
        ({"attention": "xformers"}, "attention 'xformers'"),
        ({"loss": "mse"}, "loss 'mse'"),
        ({"checkpointing": "selective_layer"}, "checkpointing 'selective_layer'"),
        ({"optimizer__impl": "apex"}, "optimizer.impl 'apex'"),
        ({"optimizer__name": "shampoo"}, "optimizer.name 'shampoo'"),
        ({"optimizer__impl": "foreach"}, "optimizer.offload"),
        ({"precision__weights": "fp64"}, "precision.weights 'fp64'"),
        ({"precision__master_weights": "bf16"}, "precision.master_weights"),
        ({"micro_batch": 0}, "micro_batch is 0"),
        ({"micro_batch": True}, "micro_batch is True"),
        ({"compile": "yes"}, "compile is 'yes'"),
        ({"num_gpus": 2}, "2 GPUs and 8 ranks"),
        ({"lora": None}, "lora"),
        ({"lora__rank": "16"}, "lora.rank"),
        ({"method": "full"}, "lora table"),
        ({"expert_parallel": 4}, "expert_parallel"),
        ({"model__config": "../../etc/passwd"}, "model.config"),
        ({"parallel__strategy": "zero3", "parallel__cpu_offload": "params"}, "cpu_offload 'params'"),
    ],
)
def test_what_a_job_cannot_say_is_named(configs, change, says):
    with pytest.raises(UsageError) as error:
        from_point(row(**change), configs)
    assert says in str(error.value)


def test_a_configuration_that_cannot_be_read_is_named(configs):
    (configs / "bad.json").write_text("[1, 2]")
    (configs / "deep.json").write_text("[" * 100_000)
    (configs / "nameless.json").write_text("{}")
    for file in ("missing.json", "bad.json", "deep.json", "nameless.json", ".."):
        with pytest.raises(OomphError):
            from_point(row(model__config=file), configs)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@settings(max_examples=200)
@given(
    st.sampled_from([*ROW, "parallel__tensor", "lora__rank", "precision__grads", "optimizer__state_dtype"]),
    ANY,
)
def test_no_value_of_a_field_raises_anything_else(tmp_path_factory, path, value):
    folder = tmp_path_factory.getbasetemp()
    (folder / "small.json").write_text(json.dumps(CONFIG))
    with contextlib.suppress(OomphError):
        assert isinstance(from_point(row(**{path: value}), folder), Job)


def test_every_published_point_is_a_job():
    """Of those beside the checkout, where there are any."""
    for file in sorted((SHARED / "points").glob("*.jsonl")):
        for line in file.read_text().splitlines():
            job = from_point(json.loads(line), SHARED / "points" / "configs")
            assert job.framework.name
            assert job.model.family


def test_of_a_gpu_of_amd_no_capacity_is_asked(configs):
    assert from_point(row(gpu="MI300X-192GB"), configs).hardware == Hardware(gpu="", gpus=8)


@pytest.mark.parametrize(
    ("source", "gpu", "allocator"),
    [
        # run_train.sh sets PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; ROCm has none
        ("float8 tables [pytorch/ao/docs]", "H100-SXM5-80GB", "expandable_segments:True"),
        ("float8 tables [pytorch/ao/docs]", "MI300X-192GB", ""),
        ("benchmarks of many nodes [pytorch/torchtitan/benchmarks]", "H100-SXM5-80GB", ""),
    ],
)
def test_who_launched_torchtitan(configs, source, gpu, allocator):
    changed = row(source=source, gpu=gpu, framework="torch 2.8.0, torchtitan 0.1.0")
    assert from_point(changed, configs).allocator == allocator


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ", 64),  # CONFIG's hidden size
        ("TheBloke/Llama-2-70B-GPTQ", 64),
        ("TheBloke/Mistral-7B-v0.1-GPTQ", 128),
    ],
)
def test_groups_of_gptq_checkpoints(configs, name, block):
    changed = row(quantization="gptq4", model__name=name)
    found = from_point(changed, configs).method.quantization
    assert found is not None
    assert found.block == block


@pytest.mark.parametrize(
    ("changes", "prepared"),
    [
        ({}, False),
        ({"precision__weights": "fp32"}, True),
        ({"uncertainty": "norms are fp32 (prepare_model_for_kbit_training)"}, True),
    ],
)
def test_which_quantised_models_were_prepared(configs, changes, prepared):
    found = from_point(row(**changes), configs)
    assert found.method.quantization is not None
    assert found.method.quantization.prepared is prepared
    assert found.precision.weights == "bf16"


@pytest.mark.parametrize(("number", "date"), [(940, "2024.08"), (1077, "2024.08"), (1078, ""), (1175, "")])
def test_numbers_of_lightning_thunders_issues_tell_the_month(configs, number, date):
    changed = row(
        source=f"a pull request [Lightning-AI/lightning-thunder#{number}]", framework="benchmark_litgpt.py"
    )
    versions = dict(from_point(changed, configs).framework.versions)
    assert versions.get("lightning-thunder-date", "") == date
