"""Draws how the LSTM balances the pole: python tests/clients/brax/picture.py docs/images/pole.svg

In the environment of check.py. The ONNX file moves the robot; XLA's trajectory lies under it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import check
import numpy as np
from closed_loop import STEPS, remembering

from hlo2onnx.runtime import Policy

SIZE = (640, 220)
SERIES = ((0, "cart, m", "#1f77b4"), (1, "pole, rad", "#d62728"))


def curve(values: np.ndarray, style: str) -> str:
    """A polyline of each fourth value, from -0.25 to 0.25."""
    places = np.arange(0, STEPS, 4)
    points = " ".join(
        f"{40 + x * (SIZE[0] - 60) / STEPS:.1f},{100 - 340 * y:.1f}"
        for x, y in zip(places, values[places], strict=True)
    )
    return f'<polyline fill="none" {style} points="{points}"/>'


def main() -> None:
    step, zeros = check.recurrent, check.TRAIN["ZEROS"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lstm.onnx"
        check.hlo2onnx.policy.translate(step, np.zeros(2, np.float32), zeros).save(path)
        _, found, _ = check.pole(2).run(Policy(path).step)
    _, expected, _ = check.pole(2).run(remembering(step, zeros))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE[0]} {SIZE[1]}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for y in (-0.2, 0, 0.2):
        height = 100 - 340 * y
        lines += [
            f'<path d="M40 {height}H{SIZE[0] - 20}" stroke="#ddd"/>',
            f'<text x="34" y="{height + 4}" text-anchor="end">{y}</text>',
        ]
    for push in (250, 500, 750, 1000):
        x = 40 + push * (SIZE[0] - 60) / STEPS
        lines.append(f'<text x="{x}" y="196" text-anchor="middle">{push}</text>')
    for place, name, color in SERIES:
        lines.append(curve(expected[:, place], f'stroke="{color}" stroke-width="4" opacity="0.3"'))
        lines.append(curve(found[:, place], f'stroke="{color}"'))
        lines.append(f'<text x="{60 + 110 * place}" y="212" fill="{color}">{name}</text>')
    lines.append('<text x="280" y="212">thin: the ONNX file; wide: XLA; steps of 0.04 s</text>')
    Path(sys.argv[1]).write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
