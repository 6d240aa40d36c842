"""The rule on rotary embeddings alone, on small graphs."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign
from rotary_graphs import (
    ANGLES,
    INPUTS,
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
            "expanded": lambda: b.expand(part(b, y, 0, 1), (T, 1, D)),
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


OTHERS: dict[str, Build] = {
    "neighbours with halves of angles": lambda b, x, cos, sin: stacked(b, x, *both(b, cos, sin)),
    "halves with neighbours of angles": lambda b, x, cos, sin: whole(
        b, x, *(repeated(b, y) for y in (cos, sin))
    ),
    "neighbours with other angles": lambda b, x, cos, sin: stacked(
        b, x, repeated(b, cos), b.concat([sin, b.Neg(sin)], -1)
    ),
    "neighbours exchanged in the stack": lambda b, x, cos, sin: stacked(
        b, x, *(repeated(b, y) for y in (cos, sin)), (part(b, x, 1, D, 2), part(b, x, 0, D, 2))
    ),
    "neighbours from elsewhere": lambda b, x, cos, sin: stacked(
        b,
        x,
        *(repeated(b, y) for y in (cos, sin)),
        (part(b, y := b.concat([x, x], -1), 2, D + 2, 2), part(b, y, 3, D + 2, 2)),
    ),
    "other neighbours by index": lambda b, x, cos, sin: stacked(
        b,
        x,
        *(repeated(b, y) for y in (cos, sin)),
        (every_second(b, x), b.Gather(x, b.i64([1, 3, 7, 5]), axis=3)),
    ),
    "one sine for all": lambda b, x, cos, sin: joined(b, halves(b, x), cos, part(b, sin, 0, 1)),
    "one angle for all": lambda b, x, cos, sin: joined(
        b, halves(b, x), *(part(b, y, 0, 1) for y in (cos, sin))
    ),
    "the whole of an uneven split": lambda b, x, cos, sin: whole(
        b, x, *both(b, cos, sin), parts=split(b, x, first=2)
    ),
    "the whole of uneven parts": lambda b, x, cos, sin: whole(
        b, x, *both(b, cos, sin), parts=(part(b, x, 0, 2), part(b, x, 2, 8))
    ),
    "halves exchanged": lambda b, x, cos, sin: joined(b, halves(b, x)[::-1], cos, sin),
    "a split exchanged": lambda b, x, cos, sin: joined(b, split(b, x)[::-1], cos, sin),
    "a split along the heads": lambda b, x, cos, sin: joined(
        b, split(b, b.concat([x, x], 2), 2), *both(b, cos, sin)
    ),
    "a split along the first axis": lambda b, x, cos, sin: joined(
        b, split(b, x, None), *both(b, cos, sin)
    ),
    "joined along the heads": lambda b, x, cos, sin: joined(b, halves(b, x), cos, sin, axis=2),
    "three parts": lambda b, x, cos, sin: b.concat([*turned(b, *halves(b, x), cos, sin), x], -1),
    "parts that overlap": lambda b, x, cos, sin: joined(
        b, (part(b, x, 0, 4), part(b, x, 3, 7)), cos, sin
    ),
    "parts that leave a gap": lambda b, x, cos, sin: joined(
        b, (part(b, y := b.concat([x, x], -1), 0, 4), part(b, y, 5, 9)), cos, sin
    ),
    "every second one, joined": lambda b, x, cos, sin: joined(
        b, (part(b, x, 0, 8, 2), part(b, x, 1, 8, 2)), cos, sin
    ),
    "halves as neighbours": lambda b, x, cos, sin: columns(b, halves(b, x), cos, sin),
    "neighbours exchanged": lambda b, x, cos, sin: columns(
        b, (part(b, x, 1, 8, 2), part(b, x, 0, 8, 2)), cos, sin
    ),
    "columns exchanged": lambda b, x, cos, sin: columns(b, pairs(b, x)[::-1], cos, sin),
    "columns of three": lambda b, x, cos, sin: columns(b, pairs_of_three(b, x), cos, sin),
    "every third": lambda b, x, cos, sin: columns(
        b, (part(b, y := b.concat([x, x], -1), 0, 12, 3), part(b, y, 1, 13, 3)), cos, sin
    ),
    "parts of two": lambda b, x, cos, sin: joined(
        b, (halves(b, x)[0], halves(b, b.Exp(x))[1]), cos, sin
    ),
    "parts of heads": lambda b, x, cos, sin: joined(
        b, halves(b, b.concat([x, x], 2), 2), *both(b, cos, sin)
    ),
    "no parts": lambda b, x, cos, sin: joined(b, (b.Exp(x), b.Neg(x)), *both(b, cos, sin)),
    "operands": lambda b, x, cos, sin: b.concat([x, x], -1),
    "no rotation": lambda b, x, cos, sin: b.concat([b.Mul(x, x), b.Exp(x)], -1),
    "the whole of other parts": lambda b, x, cos, sin: whole(
        b, x, *both(b, cos, sin), parts=halves(b, b.Exp(x))
    ),
    "the whole of parts exchanged": lambda b, x, cos, sin: whole(
        b, x, *both(b, cos, sin), parts=halves(b, x)[::-1]
    ),
    "the whole along the heads": lambda b, x, cos, sin: whole(
        b, y := b.concat([x, x, x, x], 2), *both(b, cos, sin), parts=halves(b, y, 2), axis=2
    ),
    "the whole of three": lambda b, x, cos, sin: b.Add(
        b.Mul(x, doubled(b, cos)),
        b.Mul(
            b.concat([b.Neg(part(b, x, 4, 8)), part(b, x, 0, 2), part(b, x, 2, 4)], -1),
            doubled(b, sin),
        ),
    ),
    "nothing negative": lambda b, x, cos, sin: b.Add(
        b.Mul(x, doubled(b, cos)),
        b.Mul(b.concat(list(halves(b, x)[::-1]), -1), doubled(b, sin)),
    ),
    "another sum": lambda b, x, cos, sin: b.Add(
        b.Mul(x, doubled(b, cos)), b.Mul(b.Exp(x), doubled(b, sin))
    ),
    "a sum": lambda b, x, cos, sin: b.Add(x, x),
    "a stack of operands": lambda b, x, cos, sin: b.reshape(
        b.concat([y := b.reshape(x, (2, T, H, D, 1)), y], -1), (2, T, H, 2 * D)
    ),
    "columns in another shape": in_another_shape,
    "a stack of three": lambda b, x, cos, sin: b.reshape(
        b.concat([y := b.reshape(x, (2, T, H, D, 1)), y, y], -1), (2, T, H, 3 * D)
    ),
    "a stack in another shape": lambda b, x, cos, sin: columns(
        b, pairs(b, x), cos, sin, (2, T, H * D)
    ),
    "a view of an operand": lambda b, x, cos, sin: b.reshape(x, (2, T, H * D)),
    "a view of columns": lambda b, x, cos, sin: b.reshape(b.concat([x, x], 1), (2, 2 * T, H * D)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_rotations(name: str) -> None:
    assert not fires(OTHERS[name], INPUTS, RotaryEmbedding())
