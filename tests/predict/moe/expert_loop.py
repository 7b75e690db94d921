"""The loop that is traced with expert parallelism: transformers' class, whose experts are a rank's own, and a
dispatcher of tokens as torchtitan has it, written anew, with routers that ask for all experts equally."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def train(case: dict[str, Any]) -> None:
    """Two optimizer steps on rank 0."""
    import os

    import torch

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    model = _model(case)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, case["config"]["vocab_size"], (case["batch"], case["sequence"]), device="cuda")
    mask = torch.ones_like(tokens)
    out = loss = None
    for _ in range(2):
        optimizer.zero_grad()
        out = model(input_ids=tokens, attention_mask=mask, labels=tokens, use_cache=False)
        loss = out.loss
        loss.backward()
        optimizer.step()
    del out, loss


def _model(case: dict[str, Any]) -> Any:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ranks, spread = case["ranks"], case["expert"]
    dense = init_device_mesh("cuda", (ranks,), mesh_dim_names=("fsdp",))
    sparse = init_device_mesh("cuda", (ranks // spread, spread), mesh_dim_names=("efsdp", "ep"))
    group = sparse["ep"].get_group()

    def forward(experts: Any, hidden: Any, chosen: Any, weights: Any) -> Any:
        return _dispatched(experts, hidden, chosen, weights, group, case["crowd"])

    ALL_EXPERTS_FUNCTIONS.register("spread", forward)
    config = AutoConfig.for_model(case["family"], **case["config"])
    mixed = case["precision"] == "bf16-autocast"
    dtype = torch.float32 if mixed else torch.bfloat16
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=case["attention"])
    model.config._experts_implementation = "spread"
    for layer in model.model.layers:
        experts = getattr(layer.mlp, "experts", None)
        for name in ("gate_up_proj", "down_proj") if experts is not None else ():
            whole = getattr(experts, name)
            setattr(experts, name, torch.nn.Parameter(whole[: len(whole) // spread].clone()))
    if case["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": case["reentrant"]})
    _shard(model, dense, sparse["efsdp"], mixed)
    return model


def _dispatched(experts: Any, hidden: Any, chosen: Any, weights: Any, group: Any, crowd: int) -> Any:
    """Rows sorted by expert go to the ranks of their experts and come back, as in the dispatch and combine of
    torchtitan's AllToAllTokenDispatcher; what is around them is transformers' grouped_mm_experts_forward.
    `crowd` times as many rows come to this rank as it sends."""
    import torch
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    many = chosen.size(-1)
    weights = weights.reshape(-1)
    expert, order = torch.sort(chosen.reshape(-1))
    rows = hidden[order // many]
    sorted_weights = weights[order]
    counts = torch.histc(expert.int(), bins=experts.num_experts, min=0, max=experts.num_experts - 1)
    sends = [rows.size(0) // group.size()] * group.size()
    takes = [crowd * each for each in sends]

    def enter(sent: Any) -> Any:
        came = all_to_all_single_autograd(sent, takes, sends, group)
        positions = torch.arange(came.size(0), device=came.device)
        return came[positions, :], positions

    def leave(made: Any, positions: Any) -> Any:
        back = made.new_empty(made.shape)
        back[positions, :] = made
        return all_to_all_single_autograd(back, sends, takes, group)

    entered, positions = enter(rows)
    del rows
    offsets = torch.cumsum(counts[: len(experts.gate_up_proj)], dim=0, dtype=torch.int32)
    both = torch.nn.functional.grouped_mm(entered, experts.gate_up_proj.transpose(-2, -1), offs=offsets)
    inner = experts._apply_gate(both)
    del both
    made = torch.nn.functional.grouped_mm(inner, experts.down_proj.transpose(-2, -1), offs=offsets)
    del inner
    returned = leave(made, positions)
    weighted = returned * sorted_weights.unsqueeze(-1)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.size(0), device=order.device)
    weighted = weighted[inverse]
    return weighted.view(hidden.size(0), many, -1).sum(dim=1).to(hidden.dtype)


def _shard(model: Any, dense: Any, same_experts: Any, mixed: bool) -> None:
    """As torchtitan's apply_fsdp_to_decoder, with the embedding and the output layer in the root."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.fsdp._fully_shard._fsdp_common import ShardPlacementResult
    from torch.distributed.fsdp._fully_shard._fsdp_init import _get_mesh_info
    from torch.distributed.tensor import Shard

    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if mixed else None, reduce_dtype=torch.float32 if mixed else None
    )
    every, few = _get_mesh_info(dense), _get_mesh_info(same_experts)
    layers = list(model.model.layers)
    for layer in layers:
        experts = getattr(layer.mlp, "experts", None)
        own = set() if experts is None else set(experts.parameters())

        def place(parameter: Any, own: Any = own) -> Any:
            return ShardPlacementResult(placement=Shard(0), mesh_info=few if parameter in own else every)

        fully_shard(layer, mesh=dense, mp_policy=policy, shard_placement_fn=place)
    fully_shard(model, mesh=dense, mp_policy=policy)
    for layer, following in pairwise(layers):
        layer.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([layer])
