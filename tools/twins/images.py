"""Image models in PyTorch, equal to examples/resnet18.py, mobilenet.py, vit.py and unet.py."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

# Expansion factor, output channels, stride of the first block and number of blocks of each stage.
MOBILE_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 40, 2, 2), (6, 80, 2, 2), (6, 112, 1, 1))


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


class InvertedResidual(nn.Module):
    """Expand with a 1x1 convolution, filter each channel on its own, then project back."""

    def __init__(self, inputs: int, channels: int, expansion: int, stride: int) -> None:
        super().__init__()
        inner = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [_conv(inputs, inner, 1), nn.SiLU()]
        layers += [_conv(inner, inner, 3, stride, inner), nn.SiLU(), _conv(inner, channels, 1)]
        self.inner = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x) if self.is_residual else self.inner(x)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs, eps=1e-3))


def mobilenet(classes: int = 1000) -> nn.Module:
    """Depthwise separable convolutions with swish; images NCHW to ``[batch, classes]``."""
    layers: list[nn.Module] = [_conv(3, 32, 3, 2), nn.SiLU()]
    inputs = 32
    for expansion, channels, stride, blocks in MOBILE_STAGES:
        for block in range(blocks):
            layers.append(
                InvertedResidual(inputs, channels, expansion, stride if block == 0 else 1)
            )
            inputs = channels
    layers += [_conv(inputs, 640, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(640, classes))


class EncoderBlock(nn.Module):
    """Self-attention and an MLP, each behind a layer norm and with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width, eps=1e-6)
        self.expand = nn.Linear(width, 4 * width)
        self.project = nn.Linear(4 * width, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.project(functional.gelu(self.expand(self.mlp_norm(x))))


class ViT(nn.Module):
    """Patch embedding, class token, encoder and a linear classifier on the class token."""

    def __init__(
        self, layers: int, width: int, heads: int, size: int, patch: int = 16, classes: int = 1000
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList([EncoderBlock(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


def conv_block(inputs: int, features: int) -> nn.Module:
    """Two convolutions, each followed by a group norm and a swish."""
    layers: list[nn.Module] = []
    for channels in (inputs, features):
        layers += [
            nn.Conv2d(channels, features, 3, padding=1, bias=False),
            nn.GroupNorm(4, features, eps=1e-6),
            nn.SiLU(),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Halves the resolution twice, doubles it twice, and joins equal resolutions."""

    def __init__(self, features: int = 16, outputs: int = 1) -> None:
        super().__init__()
        self.at_full = conv_block(3, features)
        self.at_half = conv_block(features, 2 * features)
        self.down = nn.Conv2d(2 * features, 4 * features, 3, 2, padding=1)
        self.at_quarter = conv_block(4 * features, 4 * features)
        self.join_half = conv_block(6 * features, 2 * features)
        self.up = nn.ConvTranspose2d(2 * features, features, 4, 2, padding=1)
        self.join_full = conv_block(2 * features, features)
        self.head = nn.Conv2d(features, outputs, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        full = self.at_full(images)
        half = self.at_half(functional.max_pool2d(full, 2))
        quarter = self.at_quarter(self.down(half))
        up = functional.interpolate(
            quarter, size=half.shape[2:], mode="bilinear", align_corners=False
        )
        x = self.join_half(torch.cat([half, up], dim=1))
        x = self.join_full(torch.cat([full, self.up(x)], dim=1))
        return torch.sigmoid(self.head(x))
