"""Exports the policies of latency.py from PyTorch: python examples/cpp/twins.py FOLDER.

It needs torch and onnxscript. The weights are random: only times are compared.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

ENTRIES, JOINTS, FRAMES, WIDTH = 48, 12, 8, 128


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        pairs = itertools.pairwise((ENTRIES, 512, 256, 128, JOINTS))
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairs)

    def forward(self, observation: Any, memory: Any) -> Any:
        for layer in self.layers[:-1]:
            observation = nn.functional.elu(layer(observation))
        action = self.layers[-1](observation)
        return action, 0.8 * memory + 0.2 * action


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTM(ENTRIES, 256), nn.Linear(256, JOINTS)

    def forward(self, observation: Any, c: Any, h: Any) -> Any:
        y, (h, c) = self.cell(observation[None], (h[None], c[None]))
        return self.head(y[0]), c[0], h[0]


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(ENTRIES, WIDTH), nn.Linear(WIDTH, JOINTS)
        given = {"activation": "gelu", "batch_first": True, "norm_first": True}
        layers = [nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, **given) for _ in range(2)]
        self.blocks = nn.Sequential(*layers)

    def forward(self, observation: Any, memory: Any) -> Any:
        memory = torch.concatenate([memory[1:], observation[None]])
        x = self.blocks(self.embed(memory)[None])[0]
        return self.head(x[-1]), memory


SIZES = {Mlp: [JOINTS], Lstm: [256, 256], Transformer: [(FRAMES, ENTRIES)]}
"""Classes and the sizes of their memories."""

if __name__ == "__main__":
    for kind, sizes in SIZES.items():
        inputs = torch.zeros(ENTRIES), *map(torch.zeros, sizes)
        path = Path(sys.argv[1]) / f"{kind.__name__}.onnx"
        torch.onnx.export(kind().eval(), inputs, path, dynamo=True)
