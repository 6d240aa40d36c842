"""`program.explain(rule)`: where the rule fired, its nearest misses, and what is no rule."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import hlo2onnx
from hlo2onnx.raising import refusals
from hlo2onnx.raising.rules.nn.activations import MinMaxToClip

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def _here(function: Callable[..., object], text: str) -> str:
    """ "file:line" of the line of a function that holds a text."""
    lines, start = inspect.getsourcelines(function)
    (place,) = (number for number, line in enumerate(lines, start) if text in line)
    return f"tests/raising/{Path(__file__).name}:{place}"


def one(x: Array) -> Array:
    return jax.nn.softmax(x) * 3


def test_a_rule_that_fires() -> None:
    found = hlo2onnx.translate(one, X).explain("softmax")
    (firing,) = found.firings
    assert firing.rule == found.rule == "softmax"
    assert firing.before.startswith("Div ") and firing.after == f"Softmax {firing.before[4:]}"
    assert firing.source == _here(one, "jax.nn.softmax")
    assert found.misses == () and found.note == ""
    text = str(found)
    assert "fired    once" in text and "refused  nowhere: no Div is left" in text


def several(x: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    over_both = jax.nn.softmax(x, axis=(0, 1))
    return over_both, jnp.sin(x) / y, x / y, jax.nn.softmax(y)  # two quotients


def test_near_misses_come_first_with_line_and_culprit() -> None:
    program = hlo2onnx.translate(several, X, X + 2)
    found = program.explain("softmax")
    assert len(found.firings) == 1
    nearest, quotients = found.misses
    assert nearest.reason == "it runs over several axes"
    assert quotients.reason == "its dividend is not an exponential of a difference"
    assert nearest.held > quotients.held == 0
    (place,) = nearest.places
    assert place.node.startswith("Div ") and place.source == _here(several, "over_both =")
    assert place.culprit.startswith("Sub ")
    two = _here(several, "# two quotients")
    assert [item.source for item in quotients.places] == [two, two]
    text = str(found)
    assert text.index("several axes") < text.index("not an exponential")
    assert "(0 conditions hold; 2 nodes)" in text and f"because of {place.culprit}" in text


def test_the_program_is_as_it_was() -> None:
    program = hlo2onnx.translate(several, X, X + 2)
    before = program.model_proto
    assert str(program.explain("softmax")) == str(program.explain("softmax"))
    assert program.model_proto == before and program.verify(X, X + 2).ok


def test_reasons_of_an_attempt_within_an_attempt() -> None:
    """An RNN rule tries each state of a loop; the state that gets furthest gives the reason."""

    def cell(x: Array, w: Array) -> Array:
        def step(carry: tuple[Array, Array], row: Array) -> tuple[tuple[Array, Array], Array]:
            h, c = carry
            c = jax.nn.sigmoid(row @ w) * c + jnp.sin(h @ w)
            return (jax.nn.sigmoid(row) * jnp.tanh(c), c), h

        return lax.scan(step, (x[0], x[1]), jnp.concatenate([x] * 8))[1]

    program = hlo2onnx.translate(cell, X, np.eye(4, dtype=np.float32), without="loop-to-scan")
    (miss,) = program.explain("lstm").misses
    assert miss.reason != "no state belongs to such a cell" and miss.held > 3
    assert miss.places[0].node.startswith("Loop ")


def scanned(x: Array) -> Array:
    return lax.scan(lambda h, row: (jnp.sin(h) * row, h), x[0], jnp.tile(x, (40, 1)))[1]


def test_nodes_that_another_rule_took_first() -> None:
    """What is a Scan in the end was a Loop that the rule refused."""
    program = hlo2onnx.translate(scanned, X)
    assert program.report.nodes["Scan"] and not program.report.nodes["Loop"]
    (miss,) = program.explain("loop-unroll").misses
    (place,) = miss.places
    assert place.node.startswith("Loop ") and place.then == "loop-to-scan"
    assert "then rewritten by loop-to-scan" in str(miss)
    left = hlo2onnx.translate(scanned, X, without="loop-to-scan").explain("loop-unroll")
    assert [place.then for miss in left.misses for place in miss.places] == [""]


def test_unknown_rules() -> None:
    program = hlo2onnx.translate(one, X)
    with pytest.raises(hlo2onnx.UsageError, match="no rule named softmin; did you mean softmax"):
        program.explain("softmin")


def clipped(x: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, -1.0), 6.0) + 1


def test_former_names() -> None:
    former = MinMaxToClip.formerly[0]
    found = hlo2onnx.translate(clipped, X).explain(former)
    assert found.rule == MinMaxToClip.name and found.firings


def test_rules_that_are_switched_off() -> None:
    former = MinMaxToClip.formerly[0]
    off = hlo2onnx.translate(clipped, X, without=[former]).explain(MinMaxToClip.name)
    assert not off.firings and off.note == "it is switched off by without="
    assert str(off).endswith(off.note)
    found = hlo2onnx.translate(clipped, X, nan="xla").explain("quantize-linear")
    assert "nan=" in found.note


def test_many_nodes_with_one_reason_are_counted() -> None:
    def sums(x: Array) -> list[Array]:
        return [x / (x + n) for n in range(2, 9)]

    (miss,) = hlo2onnx.translate(sums, X).explain("softmax").misses
    assert len(miss.places) == 7 and "and 3 more nodes" in str(miss)


def test_nothing_is_counted_unless_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    monkeypatch.setattr(refusals.Progress, "refused", lambda *_: next(calls))
    program = hlo2onnx.translate(one, X)
    assert next(calls) == 0 and not refusals._counted
    program.explain("min-max-to-clip")
    assert not refusals._counted
