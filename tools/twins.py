"""Writes twins: models of examples/ written in PyTorch and exported by torch.onnx.

    python -m tools.twins DIR gpt2_prefill        writes DIR/gpt2_prefill.onnx

It needs torch and onnxscript, and does not import hlo2onnx. `python -m tools.bench twins` compares
our models with them: the same architecture in the same runtime.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tools import command_line

Twin = tuple[nn.Module, tuple[Any, ...]]

GPT2 = {"layers": 6, "width": 384, "heads": 6, "tokens": 128, "vocab": 512}
OPSET = 23


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around which the input is added back."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.skip: nn.Module = nn.Identity()
        if inputs != channels or stride != 1:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.skip(x) + self.inner(x))


def resnet18(channels: int = 64, classes: int = 1000) -> nn.Module:
    """ResNet-18; images ``[batch, 3, height, width]`` to ``[batch, classes]``."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, channels, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    inputs = channels
    for stage in range(4):
        outputs = channels * 2**stage
        for block in range(2):
            layers.append(ResidualBlock(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
            inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
    return nn.Sequential(*layers)


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


class Tagger(nn.Module):
    """Two layers of LSTM and scores for the labels of each step; ``[batch, steps, features]``."""

    def __init__(self, width: int, features: int, labels: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(features, width, num_layers=2, batch_first=True)
        self.scores = nn.Linear(width, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.recurrent(x)[0])


def _decode() -> Twin:
    layers, heads = GPT2["layers"], GPT2["heads"]
    shape = (1, heads, GPT2["tokens"] - 1, GPT2["width"] // heads)
    caches = [(torch.randn(shape), torch.randn(shape)) for _ in range(layers)]
    return Gpt2Decode(**GPT2), (torch.tensor([[3]]), torch.tensor(64), caches)


TWINS: dict[str, Callable[[], Twin]] = {
    "resnet18": lambda: (resnet18(), (torch.randn(1, 3, 224, 224),)),
    "gpt2_prefill": lambda: (Gpt2(**GPT2), (torch.randint(0, GPT2["vocab"], (1, 128)),)),
    "gpt2_decode": _decode,
    "lstm": lambda: (Tagger(width=128, features=64, labels=16), (torch.randn(4, 256, 64),)),
}
"""What builds each twin and the arguments to export it with, by the name of our example."""


def main() -> int:
    """Writes one twin as one file with its weights inside."""
    parser = command_line("twins", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", choices=TWINS)
    given = parser.parse_args()
    torch.manual_seed(0)
    model, args = TWINS[given.name]()
    program = torch.onnx.export(
        model.eval(), args, dynamo=True, optimize=True, opset_version=OPSET, verbose=False
    )
    if program is None:
        raise RuntimeError(f"torch.onnx exports no program for {given.name}")
    program.save(given.folder / f"{given.name}.onnx", external_data=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
