"""Writes StableHLO programs of PyTorch modules, by torchax, to ``tests/producers/``.

    python -m tools.producers.torchax

Run it in an environment with torch, torchax and jax. torchax 0.0.13 looks up overloads for named
dimensions, which torch 2.13 no longer has. While torchax is imported, a patch returns their names.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jax
import numpy as np
import torch

from tools import ROOT

FOLDER = ROOT / "tests" / "producers"

_PACKET = torch._ops.OpOverloadPacket
_overload = _PACKET.__getattr__


def _overload_or_name(packet: Any, name: str) -> Any:
    try:
        return _overload(packet, name)
    except AttributeError:
        if "name" not in name.lower():
            raise
        return f"{packet}.{name}"


_PACKET.__getattr__ = _overload_or_name

import torchax  # noqa: E402  (looks the overloads up at its import)


def cnn() -> tuple[torch.nn.Module, np.ndarray]:
    """Convolution, batch normalization, pooling and a linear layer, in PyTorch's layout."""
    nn = torch.nn
    layers = [
        *(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 4, 3, groups=2, stride=2), nn.GELU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(4, 3)),
    ]
    return nn.Sequential(*layers), np.zeros((2, 3, 8, 8), np.float32)


class Text(torch.nn.Module):
    """Embedding, causal attention, layer normalization and a feed-forward block."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8)
        self.qkv = torch.nn.Linear(8, 24)
        self.norm = torch.nn.LayerNorm(8)
        self.out = torch.nn.Linear(8, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The three largest logarithms of probabilities of each next token."""
        x = self.embed(tokens)
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = self.norm(x + mixed.transpose(1, 2).flatten(2))
        return torch.log_softmax(self.out(torch.nn.functional.silu(x)), dim=-1).topk(3)[0]


def text() -> tuple[torch.nn.Module, np.ndarray]:
    """See `Text`."""
    return Text(), np.zeros((2, 6), np.int32)


def main() -> None:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torchax", "torch", "jax"))
    for make in (cnn, text):
        torch.manual_seed(0)
        module, x = make()
        weights, function = torchax.extract_jax(module.eval())
        lowered = jax.jit(lambda x, w=weights, f=function: f(w, (x,))).lower(x)
        content = f"// python -m tools.producers.torchax: {packages}\n{lowered.as_text()}\n"
        path = FOLDER / f"torchax_{make.__name__}.mlir"
        path.write_text(content)
        print(f"{path.name}: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
