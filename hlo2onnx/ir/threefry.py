"""Threefry-2x32, the generator of JAX's default keys, as one operator and in numpy.

Twenty rounds mix a pair of 32-bit counters: add the second to the first, rotate the second, XOR
the first into it. After every fourth round two of three words of the key are added. The third word
is the XOR of the key's two words and a constant (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", 2011).
"""

from __future__ import annotations

import numpy as np

THREEFRY = "Threefry2x32"
"""The operator, which ONNX does not have: two words of the key and two counters, all UINT32, that
broadcast against each other, give two words of random bits. The lowering makes it, rules move it,
and after the rules operators of ONNX replace it."""

WRITTEN_NODES = 90
"""Nodes of ONNX's operators that do the same for few numbers."""

GROUPS, ROUNDS = 5, 4
ROTATIONS = np.array(
    [[13, 15, 26, 6] if group % 2 == 0 else [17, 29, 16, 24] for group in range(GROUPS)],
    np.uint32,
)
"""How far each round of each group rotates."""

PARITY = 0x1BD11BDA


def random_words(*words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The random bits for two words of a key and two counters, which broadcast."""
    keys = [*words[:2], words[0] ^ words[1] ^ np.uint32(PARITY)]
    first, second = words[2] + keys[0], words[3] + keys[1]
    for group, rotations in enumerate(ROTATIONS):
        for rotation in rotations:
            first = first + second
            second = (second << rotation | second >> (32 - rotation)) ^ first
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    return first, second
