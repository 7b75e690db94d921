import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp import ShardingStrategy as Strategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


class Block(torch.nn.Module):
    def __init__(self, width, heads=16):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x, mask):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Decoder(torch.nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, width)
        self.blocks = torch.nn.ModuleList([Block(width) for _ in range(layers)])
        self.head = torch.nn.Linear(width, vocab, bias=False)

    def forward(self, tokens, labels):
        length = tokens.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf"), device=tokens.device), 1)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(x)
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


STRATEGIES = {
    "full": Strategy.SHARD_FULL,
    "none": Strategy.NO_SHARD,
    "hybrid": Strategy.HYBRID_SHARD,
}


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = FullyShardedDataParallel(
        Decoder(vocab=32000, width=1024, layers=8),
        sharding_strategy=STRATEGIES[os.environ.get("STRATEGY", "full")],
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        device_id=local_rank,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(100):
        tokens = torch.randint(0, 32000, (4, 512), device="cuda")
        model(tokens, labels=tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
