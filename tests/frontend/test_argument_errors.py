"""Options and example arguments that do not fit: the error says what exists, and shows the form."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

from hlo2onnx import SignatureError, UsageError, translate

X = np.ones((3, 4), np.float32)


def both(x: Any, y: Any) -> Any:
    return x["a"] + x["b"] + y


TREE = {"a": X, "b": X}

DYNAMIC: list[tuple[Any, str]] = [
    ({"inputs": "b"}, r"the arguments are x, y, as in dynamic=\{'x': \"b, ...\"\}"),
    ({"y": {0: "batch"}}, r'for y, an array of shape \(3, 4\): write a text such as "b, \.\.\."'),
    ({"y": (None, 4)}, r"for y, an array"),
    ((None, 4), r"neither a string such as .* nor a mapping such as"),
    ({"x": {"a": {0: "n"}, "b": None}}, r"for x\['a'\], an array"),
    ({"x": {"a": "b, ..."}}, r"for x, which has 'a', 'b': give each"),
    ({"x": {"a": "b, 5", "b": None}}, r"do not fit x\['a'\]: "),
]


@pytest.mark.parametrize(("dynamic", "message"), DYNAMIC)
def test_dynamic(dynamic: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate(both, TREE, X, dynamic=dynamic)


def test_parts_of_a_pytree() -> None:
    program = translate(both, TREE, X, dynamic={"x": {"a": "b, ...", "b": "b, 4"}, "y": "b, _"})
    shapes = [str(value.shape) for value in program.model.graph.inputs]
    assert shapes == ["[b,4]", "[b,4]", "[b,4]"]
    partly = translate(both, TREE, X, dynamic={"x": {"a": None, "b": None}})
    assert [str(value.shape) for value in partly.model.graph.inputs] == ["[3,4]"] * 3


def test_names_of_a_module() -> None:
    """`apply` passes its arguments on; they have the names of the module's parameters."""

    class Module(linen.Module):
        @linen.compact
        def __call__(self, images: Any) -> Any:
            return linen.Dense(2)(images)

    weights = {"kernel": X[:, :2].repeat(2, 0)[:4], "bias": X[0, :2]}
    variables = {"params": {"Dense_0": weights}}
    program = translate(
        Module().apply, variables, X, bind="variables", dynamic={"images": "b, ..."}
    )
    assert str(program.model.graph.inputs[0].shape) == "[b,4]"
    with pytest.raises(UsageError, match="the arguments are variables, images, as in bind="):
        translate(Module().apply, variables, X, bind="params")


def test_names_of_keywords_after_more_arguments() -> None:
    def total(x: Any, *others: Any, scale: Any) -> Any:
        return x + sum(others) * scale

    program = translate(total, X, X, X, scale=X, bind="scale")
    assert program.input_names == ["x", "others/0", "others/1"]
    with pytest.raises(UsageError, match="the arguments are x, 1, 2, scale, as in"):
        translate(total, X, X, X, scale=X, dynamic={"others": "b, ..."})


def test_bind() -> None:
    with pytest.raises(UsageError, match=r"'weights': the arguments are x, y, as in bind='x'"):
        translate(both, TREE, X, bind="weights")
    with pytest.raises(UsageError, match=r"does not have: the arguments are x, y"):
        translate(both, TREE, X, bind={"weights": TREE})
    lowered = jax.jit(both).lower(TREE, X)
    with pytest.raises(UsageError, match=r"does not have: the arguments are x, y"):
        translate(lowered, bind={"weights": TREE})
    with pytest.raises(UsageError, match=r"'x' has no value: .* as in bind=\{'x': params\}"):
        translate(lowered, bind="x")


def test_texts_within_a_pytree() -> None:
    """They have the types of texts as arguments."""
    program = translate(lambda x: x["a"][x["i"][0]], {"a": "b, 4", "i": ["int32[n]"]})
    rows = np.arange(20, dtype=np.float32).reshape(5, 4)
    index = np.array([3, 0], np.int32)
    np.testing.assert_array_equal(program({"a": rows, "i": [index]}), rows[index])
    assert [str(value.dtype) for value in program.model.graph.inputs] == ["FLOAT", "INT32"]


@pytest.mark.parametrize("mode", ["relu", "bhqd,bhkd->bhqk", "", "(1)", "a[0]", "to, be!"])
def test_other_texts_within_a_pytree_are_settings(mode: str) -> None:
    def model(x: Any) -> Any:
        return x["a"] + len(x["mode"])

    program = translate(model, {"a": "b, 4", "mode": mode})
    np.testing.assert_array_equal(program({"a": X, "mode": mode}), X + len(mode))


def test_static_texts_are_no_shapes() -> None:
    @functools.partial(jax.jit, static_argnames="mode")
    def model(x: Any, mode: Any) -> Any:
        return x + len(mode[0])

    program = translate(model, X, mode=("b, 4", "s"))
    np.testing.assert_array_equal(program(X), X + 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b", r"x\['a'\] for an array, and it is the text 'b'.*\n  next .*\"float32\[b\]\""),
        ("int32[b; 4]", r"x\['a'\] is the text 'int32\[b; 4\]'.*\n  next .*\"b, 4\""),
        ("float32[-1]", r"x\['a'\] is the text .*not an extent"),
    ],
)
def test_texts_that_are_no_shapes(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate(lambda x: jnp.sin(x["a"]), {"a": text})


def test_errors_of_the_function_stay() -> None:
    def wrong(x: Any) -> Any:
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own"):
        translate(wrong, {"a": "b, 4"})
    with pytest.raises(SignatureError, match="too many positional arguments"):
        translate(wrong, X, "b, 4")


def test_floats_that_become_narrower() -> None:
    program = translate(lambda x: x["a"] + 1, {"a": X.astype(np.float64)})
    (note,) = program.report.notes
    assert note.startswith("arguments of 64-bit floats are of 32 bits in the program: x['a'];")
    assert "jax_enable_x64" in note
    with jax.enable_x64(True):
        assert not translate(lambda x: x + 1, X.astype(np.float64)).report.notes
    assert not translate(lambda x: x + 1, np.arange(3)).report.notes
