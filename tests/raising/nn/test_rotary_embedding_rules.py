"""The rule on rotary embeddings alone, on small graphs."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import graph
from rewriting import Build, Rewrite, fires, foreign
from rotary_graphs import (
    ANGLES,
    INPUTS,
    RNG,
    D,
    H,
    T,
    X,
    columns,
    halves,
    joined,
    part,
    split,
    turned,
)

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.rotary_embedding import RotaryEmbedding


def pairs(b: GraphBuilder, x: oir.Value) -> tuple[oir.Value, oir.Value]:
    """Columns of x as pairs of neighbours."""
    whole = b.reshape(x, (*X.shape[:-1], D // 2, 2))
    one, other = (part(b, whole, n, n + 1) for n in (0, 1))
    return b.squeeze(one, [4]), b.squeeze(other, [4])


def pairs_of_three(b: GraphBuilder, x: oir.Value) -> tuple[oir.Value, oir.Value]:
    """Two columns of x as triples."""
    whole = b.reshape(b.concat([x, part(b, x, 0, D // 2)], -1), (*X.shape[:-1], D // 2, 3))
    one, other = (part(b, whole, n, n + 1) for n in (0, 1))
    return b.squeeze(one, [4]), b.squeeze(other, [4])


def doubled(b: GraphBuilder, y: oir.Value) -> oir.Value:
    return b.concat([y, y], -1)


def whole(
    b: GraphBuilder,
    x: oir.Value,
    cos: oir.Value,
    sin: oir.Value,
    parts: tuple[oir.Value, oir.Value] | None = None,
    axis: int = -1,
) -> oir.Value:
    one, other = parts or halves(b, x)
    swapped = b.concat([b.Neg(other), one], axis)
    return b.Add(b.Mul(x, cos), b.Mul(swapped, sin))


def both(b: GraphBuilder, cos: oir.Value, sin: oir.Value) -> tuple[oir.Value, oir.Value]:
    return doubled(b, cos), doubled(b, sin)


def of_functions(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    angles = doubled(b, cos)
    return whole(b, x, b.Cos(angles), b.Sin(b.Mul(angles, b.Neg(doubled(b, sin)))))


def of_rows(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    """Angles that are read from a table by position."""
    rows = b.i64([4, 3, 2, 1, 0])
    return whole(b, x, *(b.Gather(doubled(b, y), rows, axis=0) for y in (cos, sin)))


def of_first_rows(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    """The axis is not named: the first."""
    rows = b.i64([4, 3, 2, 1, 0])
    tables = (b.op("Gather", doubled(b, y), rows) for y in (cos, sin))
    return whole(b, x, *tables)


def of_rows_of_matrices(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    rows = b.i64([4, 3, 2, 1, 0])
    tables = (b.op("Gather", b.reshape(doubled(b, y), (T, D)), rows) for y in (cos, sin))
    return whole(b, x, *(b.reshape(y, (T, 1, D)) for y in tables))


def in_another_shape(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    """Columns that were reshaped along the other axes, too."""
    y = b.reshape(x, (H, T, 2, D))
    real = turned(b, part(b, y, 0, 8, 2), part(b, y, 1, 8, 2), cos, sin)
    stack = b.concat([b.reshape(part, (2, T, H, D // 2, 1)) for part in real], -1)
    return b.reshape(stack, (H, T, 2, D))


def of_views(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    tables = (b.reshape(doubled(b, y), (T, D)) for y in (cos, sin))
    return whole(b, x, *(b.reshape(y, (1, T, 1, D)) for y in tables))


def of_constants(b: GraphBuilder, x: oir.Value) -> oir.Value:
    tables = (np.concatenate([y, y], -1) for y in (np.cos(ANGLES), np.sin(ANGLES)))
    return whole(b, x, *map(b.const, tables))


def of_one_angle(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Of two features, the same for both."""
    cos, sin = (b.const(f(ANGLES[..., :1])) for f in (np.cos, np.sin))
    return whole(b, part(b, x, 0, 2), cos, sin)


def repeated(b: GraphBuilder, y: oir.Value) -> oir.Value:
    """Each number twice in a row."""
    wide = b.expand(b.reshape(y, (T, 1, D // 2, 1)), (T, 1, D // 2, 2))
    return b.reshape(wide, (T, 1, D))


def every_second(b: GraphBuilder, x: oir.Value, start: int = 0) -> oir.Value:
    return b.Gather(x, b.i64(list(range(start, D, 2))), axis=3)


def stacked(
    b: GraphBuilder,
    x: oir.Value,
    cos: oir.Value,
    sin: oir.Value,
    parts: tuple[oir.Value, oir.Value] | None = None,
) -> oir.Value:
    """x * cos + stack(-x[..., 1::2], x[..., ::2]) * sin"""
    one, other = parts or (part(b, x, 0, D, 2), part(b, x, 1, D, 2))
    dims = (*X.shape[:-1], D // 2, 1)
    column = b.reshape(b.Neg(other), dims)
    pair = b.reshape(b.concat([column, b.reshape(one, dims)], -1), X.shape)
    return b.Add(b.Mul(x, cos), b.Mul(pair, sin))


def of_neighbours(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    return stacked(b, x, *(repeated(b, y) for y in (cos, sin)))


def of_gathered(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    parts = every_second(b, x), every_second(b, x, 1)
    return stacked(b, x, *(repeated(b, y) for y in (cos, sin)), parts)


def of_some_neighbours(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    """Some features of a wider tensor."""
    y = b.concat([x, x], -1)
    parts = part(b, y, 2, D + 2, 2), part(b, y, 3, D + 2, 2)
    return stacked(b, part(b, y, 2, D + 2), *(repeated(b, y) for y in (cos, sin)), parts)


def of_one_table(
    b: GraphBuilder, x: oir.Value, interleaved: bool = False, cut: str = "Split", twice: bool = True
) -> oir.Value:
    """Sines and cosines next to each other in the rows of a table."""
    both = (np.repeat(y, 2, -1) if interleaved else np.concatenate([y, y if twice else -y], -1)
            for y in (np.sin(ANGLES), np.cos(ANGLES)))  # fmt: skip
    rows = b.Gather(b.const(np.concatenate([*both], -1)), b.i64([4, 3, 2, 1, 0]), axis=0)
    sin, cos = split(b, rows) if cut == "Split" else halves(b, rows)
    return stacked(b, x, cos, sin) if interleaved else whole(b, x, cos, sin)


ROTATIONS: dict[str, Build] = {
    "neighbours that are stacked": of_neighbours,
    "neighbours by index": of_gathered,
    "neighbours among others": of_some_neighbours,
    "halves": lambda b, x, cos, sin: joined(b, halves(b, x), cos, sin),
    "a split": lambda b, x, cos, sin: joined(b, split(b, x), cos, sin),
    "a split of the last axis": lambda b, x, cos, sin: joined(b, split(b, x, 3), cos, sin),
    "some features": lambda b, x, cos, sin: joined(
        b, halves(b, part(b, b.concat([x, x], -1), 1, 9)), cos, sin
    ),
    "parts one behind the other": lambda b, x, cos, sin: joined(
        b, (part(b, y := b.concat([x, x], -1), 2, 6), part(b, y, 6, 10)), cos, sin
    ),
    "neighbours": lambda b, x, cos, sin: columns(
        b, (part(b, x, 0, 8, 2), part(b, x, 1, 8, 2)), cos, sin
    ),
    "columns": lambda b, x, cos, sin: columns(b, pairs(b, x), cos, sin),
    "the whole": lambda b, x, cos, sin: whole(b, x, *both(b, cos, sin)),
    "the whole of a split": lambda b, x, cos, sin: whole(
        b, x, *both(b, cos, sin), parts=split(b, x)
    ),
    "the whole's last axis": lambda b, x, cos, sin: whole(b, x, *both(b, cos, sin), axis=3),
    "functions of angles": of_functions,
    "rows of a table": of_rows,
    "the first rows": of_first_rows,
    "rows of matrices": of_rows_of_matrices,
    "views of a table": of_views,
    "expanded angles": lambda b, x, cos, sin: whole(
        b, x, *(b.expand(y, (1, T, 1, D)) for y in both(b, cos, sin))
    ),
}


@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations(name: str) -> None:
    found = Rewrite(ROTATIONS[name], INPUTS, RotaryEmbedding(), tolerance=1e-6)
    assert found.fired["rotary-embedding"] == 1 and found.nodes["RotaryEmbedding"] == 1
    (node,) = (n for n in found.model.graph if n.op_type == "RotaryEmbedding")
    assert node.attributes["num_heads"].as_int() == H
    expected = name.startswith(("neighbours", "columns"))
    assert node.attributes.get_int("interleaved", 0) == expected


@pytest.mark.parametrize("build", [of_constants, of_one_angle])
def test_constant_angles(build: Build) -> None:
    found = Rewrite(build, {"x": X}, RotaryEmbedding(), tolerance=1e-6)
    assert found.nodes["RotaryEmbedding"] == 1


@pytest.mark.parametrize("cut", ["Split", "Slice"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_one_table_of_sines_and_cosines(interleaved: bool, cut: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return of_one_table(b, x, interleaved, cut)

    found = Rewrite(build, {"x": X}, RotaryEmbedding(), tolerance=1e-6)
    assert found.nodes["RotaryEmbedding"] == 1


def test_one_table_of_other_numbers() -> None:
    assert not fires(lambda b, x: of_one_table(b, x, twice=False), {"x": X}, RotaryEmbedding())


def tables(*names: str, kind: str = "") -> Build:
    """Angles whose halves are not known to be equal, of cos, sin or both."""

    def change(b: GraphBuilder, y: oir.Value) -> oir.Value:
        rows = b.i64(list(range(D)))
        n = D // 2
        changed = {
            "other halves": lambda: b.concat([y, b.Neg(y)], -1),
            "three parts": lambda: b.concat([p := part(b, y, 0, 2), part(b, y, 0, 4), p], -1),
            "along the rows": lambda: b.reshape(b.concat([y, y], 1), (T, 1, D)),
            "columns of a table": lambda: b.Gather(doubled(b, y), rows, axis=2),
            "another shape": lambda: b.reshape(b.concat([y, y], 0), (T, 1, D)),
            "half a table": lambda: b.Mul(doubled(b, y), b.concat([y, b.Exp(y)], -1)),
            "a sum along": lambda: b.CumSum(doubled(b, y), b.const(np.array(2))),
            "of others": lambda: foreign(doubled(b, y)),
            "a constant": lambda: b.const(np.arange(T * D, dtype=np.float32).reshape(T, 1, D)),
            "the second half": lambda: b.concat([part(b, doubled(b, y), n, D), y], -1),
        }
        return changed[kind]()

    def build(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
        made = {"cos": cos, "sin": sin}
        return whole(b, x, *(change(b, y) if n in names else doubled(b, y)
                             for n, y in made.items()))  # fmt: skip

    return build


KINDS = ["other halves", "three parts", "along the rows", "columns of a table", "another shape",
         "half a table", "a sum along", "of others", "a constant", "the second half"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_halves_that_differ(kind: str) -> None:
    for names in (("cos",), ("sin",), ("cos", "sin")):
        assert not fires(tables(*names, kind=kind), INPUTS, RotaryEmbedding())


CONSTANTS = {
    "both": both, "columns": columns, "doubled": doubled, "every_second": every_second,
    "halves": halves, "joined": joined, "pairs": pairs, "pairs_of_three": pairs_of_three,
    "part": part, "repeated": repeated, "split": split, "stacked": stacked, "turned": turned,
    "whole": whole, "in_another_shape": in_another_shape,
}  # fmt: skip
OTHERS = [
    # Neighbours with angles of halves, and the other way round.
    "stacked(x, *both(cos, sin))",
    "whole(x, repeated(cos), repeated(sin))",
    "stacked(x, repeated(cos), concat([sin, Neg(sin)], -1))",
    # Neighbours exchanged, from elsewhere, and others by index.
    "stacked(x, repeated(cos), repeated(sin), (part(x, 1, 8, 2), part(x, 0, 8, 2)))",
    "(y := concat([x, x], -1), stacked(x, repeated(cos), repeated(sin), "
    "(part(y, 2, 10, 2), part(y, 3, 10, 2))))[1]",
    "stacked(x, repeated(cos), repeated(sin), (every_second(x), Gather(x, [1, 3, 7, 5], axis=3)))",
    # One number for all.
    "joined(halves(x), cos, part(sin, 0, 1))",
    "joined(halves(x), part(cos, 0, 1), part(sin, 0, 1))",
    # The other way round.
    "(h := halves(x), concat([h[0] * cos + h[1] * sin, h[1] * cos - h[0] * sin], -1))[1]",
    # Uneven parts, exchanged, along other axes, three, with an overlap or a gap.
    "whole(x, *both(cos, sin), parts=split(x, first=2))",
    "whole(x, *both(cos, sin), parts=(part(x, 0, 2), part(x, 2, 8)))",
    "joined(halves(x)[::-1], cos, sin)",
    "joined(split(x)[::-1], cos, sin)",
    "joined(split(concat([x, x], 2), 2), *both(cos, sin))",
    "joined(split(x, None), *both(cos, sin))",
    "joined(halves(x), cos, sin, axis=2)",
    "concat([*turned(*halves(x), cos, sin), x], -1)",
    "joined((part(x, 0, 4), part(x, 3, 7)), cos, sin)",
    "(y := concat([x, x], -1), joined((part(y, 0, 4), part(y, 5, 9)), cos, sin))[1]",
    "joined((part(x, 0, 8, 2), part(x, 1, 8, 2)), cos, sin)",
    "joined(halves(concat([x, x], 2), 2), *both(cos, sin))",
    # Columns of halves, exchanged, of three, and every third.
    "columns(halves(x), cos, sin)",
    "columns((part(x, 1, 8, 2), part(x, 0, 8, 2)), cos, sin)",
    "columns(pairs(x)[::-1], cos, sin)",
    "columns(pairs_of_three(x), cos, sin)",
    "(y := concat([x, x], -1), columns((part(y, 0, 12, 3), part(y, 1, 13, 3)), cos, sin))[1]",
    # Parts of two tensors, or none, and no rotation.
    "joined((halves(x)[0], halves(Exp(x))[1]), cos, sin)",
    "joined((Exp(x), Neg(x)), *both(cos, sin))",
    "concat([x * x, Exp(x)], -1)",
    # The whole of other parts, exchanged, along the heads, of three.
    "whole(x, *both(cos, sin), parts=halves(Exp(x)))",
    "whole(x, *both(cos, sin), parts=halves(x)[::-1])",
    "(y := concat([x, x, x, x], 2), whole(y, *both(cos, sin), parts=halves(y, 2), axis=2))[1]",
    "x * doubled(cos) + concat([Neg(part(x, 4, 8)), part(x, 0, 2), part(x, 2, 4)], -1)"
    " * doubled(sin)",
    "x * doubled(cos) + concat(halves(x)[::-1], -1) * doubled(sin)",  # nothing negative
    "x * doubled(cos) + Exp(x) * doubled(sin)",
    # Stacks of operands, of three, and in other shapes.
    "(y := reshape(x, (2, 5, 3, 8, 1)), reshape(concat([y, y], -1), (2, 5, 3, 16)))[1]",
    "(y := reshape(x, (2, 5, 3, 8, 1)), reshape(concat([y, y, y], -1), (2, 5, 3, 24)))[1]",
    "in_another_shape(x, cos, sin)",
    "columns(pairs(x), cos, sin, (2, 5, 24))",
    "reshape(x, (2, 5, 24))",
    "reshape(concat([x, x], 1), (2, 10, 24))",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_rotations(text: str) -> None:
    assert not fires(graph(text, **CONSTANTS), INPUTS, RotaryEmbedding())


def rotation(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    return joined(b, halves(b, x), cos, sin)


@pytest.mark.parametrize(("dtype", "opset"), [(np.float32, 22), (np.float64, 23), (np.float16, 23)])
def test_types_and_opsets_without_it(dtype: type, opset: int) -> None:
    inputs = {name: array.astype(dtype) for name, array in INPUTS.items()}
    assert not fires(rotation, inputs, RotaryEmbedding(), opset=opset)


def test_no_tokens() -> None:
    """The runtime's kernel takes no empty tensor."""
    assert not fires(rotation, INPUTS | {"x": X[:0]}, RotaryEmbedding())


def rotated(x: tuple[int, ...], angles: tuple[int, ...]) -> Rewrite:
    inputs = {
        "x": RNG.normal(size=(*x, D)).astype(np.float32),
        "cos": RNG.normal(size=(*angles, D // 2)).astype(np.float32),
        "sin": RNG.normal(size=(*angles, D // 2)).astype(np.float32),
    }
    return Rewrite(rotation, inputs, RotaryEmbedding(), tolerance=1e-6)


AXES: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], int | None]] = {
    ((2, 5, 3), (5, 1)): ((2, 5, 24), 3),
    ((2, 3, 5), (5,)): ((2, 3, 5, 8), None),
    ((2, 3, 5), (1, 5)): ((2, 3, 5, 8), None),
    ((2, 5, 3), (2, 5, 1)): ((2, 5, 24), 3),
    ((2, 3, 5), (2, 1, 5)): ((2, 3, 5, 8), None),
    ((2, 4, 5, 3), (5, 1)): ((8, 5, 24), 3),
    ((2, 4, 5, 3), (2, 4, 5, 1)): ((8, 5, 24), 3),
    ((2, 4, 3, 5), (5,)): ((2, 12, 5, 8), None),
    ((2, 4, 3, 5), (2, 4, 1, 5)): ((8, 3, 5, 8), None),
    ((2, 5, 3, 4), (5, 1, 1)): ((2, 5, 96), 12),
    ((2, 5, 3), (1,)): ((2, 5, 24), 3),
    ((2, 5), (5,)): ((1, 2, 5, 8), None),
    ((5,), (5,)): ((1, 5, 8), 1),
    ((2, 5), (2, 5)): ((2, 5, 8), 1),
    ((2, 1, 3), (1, 1)): ((2, 1, 24), 3),
}


@pytest.mark.parametrize(("x", "angles"), AXES)
def test_axes(x: tuple[int, ...], angles: tuple[int, ...]) -> None:
    found = rotated(x, angles)
    (node,) = (n for n in found.model.graph if n.op_type == "RotaryEmbedding")
    heads = node.attributes["num_heads"].as_int() if "num_heads" in node.attributes else None
    assert (node.inputs[0].shape, heads) == AXES[x, angles]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("x", "angles"),
    [
        ((2, 5, 3), (5, 3)),
        ((2, 4, 5, 3), (4, 5, 1)),
        ((2, 4, 5, 3), (2, 1, 5, 1)),
        ((2, 1, 3), (5, 1)),
        ((), ()),
    ],
)
def test_angles_along_other_axes(x: tuple[int, ...], angles: tuple[int, ...]) -> None:
    inputs = {
        name: RNG.normal(size=(*dims, n)).astype(np.float32)
        for name, dims, n in (("x", x, D), ("cos", angles, D // 2), ("sin", angles, D // 2))
    }
    assert not fires(rotation, inputs, RotaryEmbedding())
