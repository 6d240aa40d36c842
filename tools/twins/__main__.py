"""Writes the twins: the benchmark's models written in PyTorch and exported by torch.onnx.

    python -m tools.twins DIR               all of them, as DIR/NAME.onnx
    python -m tools.twins DIR vit unet      some of them

It needs torch and onnxscript, and does not import hlo2onnx. `python -m tools.bench twins` compares
our models with them: the same architecture in the same runtime.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tools import command_line
from tools.twins.images import UNet, ViT, mobilenet, resnet18
from tools.twins.sequences import Decoder, Gpt2, Gpt2Decode, Tagger

Twin = tuple[torch.nn.Module, tuple[Any, ...]]

GPT2 = {"layers": 6, "width": 384, "heads": 6, "tokens": 128, "vocab": 512}


def _images(size: int) -> torch.Tensor:
    return torch.randn(1, 3, size, size)


def _decode() -> Twin:
    layers, heads = GPT2["layers"], GPT2["heads"]
    shape = (1, heads, GPT2["tokens"] - 1, GPT2["width"] // heads)
    caches = [(torch.randn(shape), torch.randn(shape)) for _ in range(layers)]
    return Gpt2Decode(**GPT2), (torch.tensor([[3]]), torch.tensor(64), caches)


TWINS: dict[str, Callable[[], Twin]] = {
    "resnet18": lambda: (resnet18(), (_images(224),)),
    "mobilenet": lambda: (mobilenet(), (_images(128),)),
    "vit": lambda: (ViT(layers=6, width=384, heads=6, size=224), (_images(224),)),
    "gpt2_prefill": lambda: (Gpt2(**GPT2), (torch.randint(0, GPT2["vocab"], (1, 128)),)),
    "gpt2_decode": _decode,
    "decoder": lambda: (
        Decoder(layers=4, width=512, heads=8, kv_heads=2, tokens=64),
        (torch.randn(1, 64, 512),),
    ),
    "lstm": lambda: (Tagger(width=128, features=64, labels=16), (torch.randn(4, 256, 64),)),
    "unet": lambda: (UNet(), (_images(64),)),
}
"""What builds each twin and the arguments to export it with, by the name of our example."""


OPSET = 23
OPSETS = {"unet": 20}
"""ORT has kernels for what opset 23 adds, Attention and RMSNormalization, but none for the
GroupNormalization of opset 21: its expansion is slower than InstanceNormalization."""


def export(name: str, folder: Path, opset: int) -> Path:
    """Writes one twin as one file with its weights inside, and returns the path."""
    torch.manual_seed(0)
    model, args = TWINS[name]()
    program = torch.onnx.export(
        model.eval(), args, dynamo=True, optimize=True, opset_version=opset, verbose=False
    )
    if program is None:
        raise RuntimeError(f"torch.onnx exports no program for {name}")
    path = folder / f"{name}.onnx"
    program.save(path, external_data=False)
    return path


def main() -> int:
    parser = command_line("twins", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="twins; default: all")
    parser.add_argument("--opset", type=int, help="default: the one that is fastest in ORT")
    given = parser.parse_args()
    if unknown := set(given.names) - set(TWINS):
        parser.error(f"no twin named {', '.join(sorted(unknown))}: {', '.join(TWINS)}")
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or TWINS:
        print(export(name, given.folder, given.opset or OPSETS.get(name, OPSET)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
