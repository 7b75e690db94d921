"""A decoder as torchtitan writes one, as a program for one traced rank, and the same as a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oomph.job.model import (
    Batch,
    Dimension,
    Framework,
    Hardware,
    Job,
    Model,
    Parallel,
    Precision,
)
from oomph.phases import Phase
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink

MODEL = """
import os
from contextlib import nullcontext
from torch import nn
from torch.nn import functional

torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
WIDTH, HEADS, KV_HEADS, INNER, WORDS, LAYERS, BATCH, TOKENS = {sizes}
HEAD = WIDTH // HEADS

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight

def rotated(q, k, angles):
    a = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    b = torch.view_as_complex(k.float().reshape(*k.shape[:-1], -1, 2))
    angles = angles[: q.shape[1]].view(1, q.shape[1], 1, -1)
    first = torch.view_as_real(a * angles).flatten(3)
    second = torch.view_as_real(b * angles).flatten(3)
    return first.type_as(q), second.type_as(k)

def repeated(x, times):
    if times == 1:
        return x
    b, s, heads, head = x.shape
    return x[:, :, :, None, :].expand(b, s, heads, times, head).reshape(b, s, heads * times, head)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wk = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.wv = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, angles):
        b, s, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q, k, v = q.view(b, s, -1, HEAD), k.view(b, s, -1, HEAD), v.view(b, s, -1, HEAD)
        q, k = rotated(q, k, angles)
        k, v = repeated(k, HEADS // KV_HEADS), repeated(v, HEADS // KV_HEADS)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = out.transpose(1, 2).contiguous()
        out = out.view(b, s, -1)
        return self.wo(out)

class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(WIDTH, INNER, bias=False)
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, INNER, bias=False)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = Norm(), Attention()
        self.ffn_norm, self.feed_forward = Norm(), FeedForward()

    def forward(self, x, angles):
        h = x + self.attention(self.attention_norm(x), angles)
        return h + self.feed_forward(self.ffn_norm(h))

class Decoder(nn.Module):
    def __init__(self, layers, first=True, last=True):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH) if first else None
        self.layers = nn.ModuleDict({{str(each): Block() for each in range(layers)}})
        self.norm = Norm() if last else None
        self.output = nn.Linear(WIDTH, WORDS, bias=False) if last else None
        angles = torch.ones(TOKENS, HEAD // 2, dtype=torch.complex64)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, x):
        h = self.tok_embeddings(x) if self.tok_embeddings else x
        for layer in self.layers.values():
            h = layer(h, self.angles)
        h = self.norm(h) if self.norm else h
        return self.output(h) if self.output else h

def made(*arguments):
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Decoder(*arguments)
    torch.set_default_dtype(torch.float32)
    return model

def peak():
    # What was asked for: a block that the allocator did not split counts as no more than that.
    found = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    torch.cuda.reset_peak_memory_stats()
    # The model's buffer, which is no parameter.
    return found - TOKENS * (HEAD // 2) * 8
"""


@dataclass(frozen=True)
class Sizes:
    """Dimensions of the model and the batch."""

    width: int = 2048
    heads: int = 16
    kv_heads: int = 16
    inner: int = 5632
    words: int = 32000
    layers: int = 2
    batch: int = 2
    tokens: int = 1024

    def model(self) -> str:
        """The classes as a program."""
        sizes = (
            self.width, self.heads, self.kv_heads, self.inner, self.words, self.layers, self.batch, self.tokens,
        )  # fmt: skip
        return MODEL.format(sizes=sizes)

    def job(self, parallel: Parallel, **more: Any) -> Job:
        """The same as a job in torchtitan of December 2024, whose classes these are like."""
        config = {
            "vocab_size": self.words, "hidden_size": self.width, "intermediate_size": self.inner,
            "num_hidden_layers": self.layers, "num_attention_heads": self.heads, "head_dim": self.width // self.heads,
            "num_key_value_heads": self.kv_heads, "tie_word_embeddings": False, "max_position_embeddings": 8192,
        }  # fmt: skip
        pairs = tuple(Dimension(key=key, value=value) for key, value in sorted(config.items()))
        return Job(
            model=Model(name="small", family="llama", config=pairs),
            precision=more.pop("precision", Precision(weights="bf16", compute="bf16")),
            batch=more.pop("batch", Batch(micro=self.batch, sequence=self.tokens)),
            parallel=parallel,
            hardware=Hardware(gpu="a100-80gb"),
            framework=Framework(name="torchtitan", versions=(("torchtitan-date", "2024.12.23"),)),
            **more,
        )


def planned(job: Job) -> dict[Phase, int]:
    """Allocated peaks without cuBLAS's workspace, which the traces of these tests leave out."""
    sink = PeakSink()
    compose(setup_of(job, variants(job)[0]), sink)
    found = {}
    for phase, peak in sink.peaks().items():
        extra = sum(size for (_, name), size in peak.parts.items() if name.startswith("cuBLAS"))
        found[phase] = peak.bytes - extra
    return found
