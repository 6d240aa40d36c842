"""Sequence models in PyTorch, equal to examples/gpt2_prefill.py, gpt2_decode.py, decoder.py and
lstm.py."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Gpt2Block(nn.Module):
    """Self-attention and an MLP with tanh GELU, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.project = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key and value ``[batch, heads, tokens, features]`` of ``x``."""
        batch, tokens, width = x.shape
        query, key, value = (
            part.reshape(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.ln_1(x)).split(width, dim=-1)
        )
        return query, key, value

    def finish(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """The block's result, given what attention has mixed ``[batch, heads, tokens, ...]``."""
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.project(functional.gelu(self.expand(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 over a whole prompt: the logits of the next token at every position."""

    def __init__(self, layers: int, width: int, heads: int, tokens: int, vocab: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList([Gpt2Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """The output embedding is the transposed input embedding."""
        return functional.linear(self.ln_f(x), self.wte.weight)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            query, key, value = block.split(x)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = block.finish(x, mixed)
        return self.logits(x)


class Gpt2Decode(Gpt2):
    """One decode step: the caches are joined with the new token's key and value.

    That is the form in which language models are exported; JAX's has caches of the final size.
    """

    def forward(
        self,
        token: torch.Tensor,
        position: torch.Tensor,
        caches: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
        x = self.wte(token) + self.wpe(position)
        updated = []
        for block, cache in zip(self.blocks, caches, strict=True):
            query, *new = block.split(x)
            keys, values = (
                torch.cat((old, row), dim=2) for old, row in zip(cache, new, strict=True)
            )
            updated.append((keys, values))
            mixed = functional.scaled_dot_product_attention(query, keys, values)
            x = block.finish(x, mixed)
        return self.logits(x), updated


class DecoderBlock(nn.Module):
    """RMSNorm, rotary embedding, grouped-query attention and SwiGLU, as in Llama."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.features, inner = width // heads, 8 * width // 3
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.features, bias=False)
        self.value = nn.Linear(width, kv_heads * self.features, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-6)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        normed = self.attention_norm(x)
        heads = (*x.shape[:2], -1, self.features)
        query, key, value = (
            projection(normed).reshape(heads).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        query, key = rotary(query, cos, sin), rotary(key, cos, sin)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        normed = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Decoder(nn.Module):
    """Decoder blocks on embedded tokens; the rotary tables are buffers."""

    def __init__(self, layers: int, width: int, heads: int, kv_heads: int, tokens: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([DecoderBlock(width, heads, kv_heads) for _ in range(layers)])
        features = width // heads
        frequencies = 10000.0 ** (-torch.arange(0, features, 2) / features)
        angles = torch.arange(tokens)[:, None] * frequencies
        self.register_buffer("cos", torch.cat([angles, angles], dim=-1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], dim=-1).sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return x


class Tagger(nn.Module):
    """Two layers of LSTM and scores for the labels of each step; ``[batch, steps, features]``."""

    def __init__(self, width: int, features: int, labels: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(features, width, num_layers=2, batch_first=True)
        self.scores = nn.Linear(width, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.recurrent(x)[0])
