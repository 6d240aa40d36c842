"""Programs of thousands of ops: translated in time linear in them, however long their chains."""

from __future__ import annotations

import cProfile
import gc
import pstats
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from mostly_wide import mostly_wide

import hlo2onnx
from hlo2onnx.frontend.mlir import functions as inlining

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
INDICES = np.array([0, 3, 1, 2], np.int32)


def repeated(count: int, step: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(count):
        x = step(x)
    return x


CHAINS: dict[str, Callable[[Any, int], Any]] = {
    "nan-free": lambda x, n: repeated(n, jnp.tanh, x).max(0),
    "finite": lambda x, n: repeated(n, lambda y: y * x, x).max(0),
    "float range": lambda x, n: repeated(n, lambda y: y * 0.5 + 1, x).astype(jnp.int32),
    "steps": lambda x, n: repeated(n, lambda y: y + 1, x).max(),
    "elements": lambda x, n: x[repeated(n, lambda i: jnp.minimum(i + 1, 3), INDICES)],
    "integer range": lambda x, n: 7 // repeated(n, lambda i: i ^ (i >> 1), x.astype(jnp.int32)),
    "distinct": lambda x, n: x.at[repeated(n, lambda i: i + 1, INDICES) - n].add(1),
    "sum": lambda x, n: sum(x[i % 4, i % 8] * 2.0 for i in range(n)),
    "rows": lambda x, n: repeated(n, lambda y: jnp.concatenate([y[1:], y[:1]]), x).max(0),
    "updates": lambda x, n: repeated(n, lambda y: y.at[1].set(y[2] + y[1]), x),
    "selects": lambda x, n: repeated(n, lambda y: jnp.where(y > 0, y - 1, x), x).max(),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", CHAINS)
def test_long_chains(name: str) -> None:
    program = hlo2onnx.translate(lambda x: CHAINS[name](x, 1100), X)
    # Op by op: XLA's compiler does not survive some of these.
    want = CHAINS[name](jnp.asarray(X), 1100)
    np.testing.assert_allclose(program(X), want, rtol=1e-4, atol=1e-6)


@pytest.mark.wide
@pytest.mark.parametrize("name", mostly_wide(CHAINS, ["sum", "updates"]))
def test_work_is_linear_in_ops(name: str) -> None:
    """Four times the ops, about four times the calls of functions."""
    few, many = (_calls(lambda x, n=n: CHAINS[name](x, n)) for n in (60, 240))
    assert many < 5.5 * few


def _calls(function: Callable[[Any], Any]) -> int:
    lowered = jax.jit(function).lower(X)
    hlo2onnx.translate(lambda x: x + 1, X)
    profile = cProfile.Profile()
    profile.runcall(hlo2onnx.translate, lowered)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.wide
def test_removed_nodes_are_freed() -> None:
    """Python's collector of cyclic garbage would visit them all, as this test does."""

    def removed() -> int:
        return sum(isinstance(item, oir.Node) and item.graph is None for item in gc.get_objects())

    hlo2onnx.translate(lambda x: x + 1, X)
    gc.collect()
    gc.disable()
    try:
        before = removed()
        program = hlo2onnx.translate(lambda x: CHAINS["rows"](x, 60), X)
        assert removed() < before + 20
        assert program.report.rules.total() > 60
    finally:
        gc.enable()


def test_the_garbage_collector_goes_on() -> None:
    assert gc.isenabled()
    hlo2onnx.translate(lambda x: x + 1, X)
    assert gc.isenabled()
    with pytest.raises(hlo2onnx.LoadError):
        hlo2onnx.translate("func.func @main() {\n  return\n}")
    assert gc.isenabled()
    gc.disable()
    try:
        hlo2onnx.translate(lambda x: x + 1, X)
        assert not gc.isenabled()
    finally:
        gc.enable()


# -- wide programs ------------------------------------------------------------------------------

ROW = "tensor<2xf32>"


def _list(count: int, text: str) -> str:
    return ", ".join(text.replace("$", str(k)) for k in range(count))


def _sums(count: int, operand: str = "%x") -> str:
    """Values %s0, %s1, ... of which each has a constant of its own."""
    return "".join(
        f"%c{k} = stablehlo.constant dense<{k}.5> : {ROW}\n"
        f"%s{k} = stablehlo.add {operand.replace('$', str(k))}, %c{k} : {ROW}\n"
        for k in range(count)
    )


def _concatenate(n: int, operands: str) -> str:
    types, result = _list(n, ROW), f"tensor<{2 * n}xf32>"
    joined = f"%0 = stablehlo.concatenate {_list(n, operands)}, dim = 0 : ({types}) -> {result}\n"
    return f"{joined} return %0 : {result}"


def _many_operands(n: int) -> str:
    """A concatenate of one value, many times."""
    return f"func.func @main(%x: {ROW}) -> tensor<{2 * n}xf32> {{ {_concatenate(n, '%x')} }}"


def _many_different_operands(n: int) -> str:
    head = f"func.func @main(%x: {ROW}) -> tensor<{2 * n}xf32>"
    return f"{head} {{ {_sums(n)} {_concatenate(n, '%s$')} }}"


def _many_results(n: int) -> str:
    types = _list(n, ROW)
    head = f"func.func @main(%x: {ROW}) -> ({types})"
    return f"{head} {{ {_sums(n)} return {_list(n, '%s$')} : {types} }}"


def _many_states(n: int) -> str:
    """A loop that carries many arrays, of which each goes its own way."""
    types, states = _list(n, ROW), _list(n, f"%a$: {ROW}")
    return f"""
    func.func @main({states}) -> ({types}) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %seven = stablehlo.constant dense<7> : tensor<i32>
      %w:{n + 1} = stablehlo.while(%i = %zero, {_list(n, "%i$ = %a$")}) : tensor<i32>, {types}
      cond {{
        %c = stablehlo.compare LT, %i, %seven : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        {_sums(n, "%i$")}
        stablehlo.return %next, {_list(n, "%s$")} : tensor<i32>, {types}
      }}
      return {", ".join(f"%w#{k + 1}" for k in range(n))} : {types}
    }}"""


def _many_functions(n: int) -> str:
    functions = "".join(
        f"func.func private @f{k}(%x: {ROW}) -> {ROW} {{ {_sums(1)} return %s0 : {ROW} }}\n"
        for k in range(n)
    )
    calls = "".join(f"%x{k + 1} = call @f{k}(%x{k}) : ({ROW}) -> {ROW}\n" for k in range(n))
    return f"{functions} func.func @main(%x0: {ROW}) -> {ROW} {{ {calls} return %x{n} : {ROW} }}"


def _many_branches(n: int) -> str:
    branch = f"{{ {_sums(1)} stablehlo.return %s0 : {ROW} }}"
    branches = ", ".join(branch.replace("0.5", f"{k}.5") for k in range(n))
    case = f'%0 = "stablehlo.case"(%i) ({branches}) : (tensor<i32>) -> {ROW}'
    return f"func.func @main(%i: tensor<i32>, %x: {ROW}) -> {ROW} {{ {case} return %0 : {ROW} }}"


WIDE = [
    _many_operands,
    _many_different_operands,
    _many_results,
    _many_states,
    _many_functions,
    _many_branches,
]


def _name(program: Callable[[int], str]) -> str:
    return program.__name__


@pytest.mark.wide
@pytest.mark.parametrize("program", WIDE)
def test_work_is_linear_in_width(program: Callable[[int], str]) -> None:
    """Eight times the width, about eight times the calls of functions."""
    few, many = (_calls_of_text(program(n)) for n in (100, 800))
    assert many < 9 * few


def _calls_of_text(text: str) -> int:
    profile = cProfile.Profile()
    profile.runcall(hlo2onnx.translate, text)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_time_is_linear_in_operands() -> None:
    """What takes time without calls, such as messages that nobody reads."""
    hlo2onnx.translate(_many_operands(3))
    start = time.process_time()
    hlo2onnx.translate(_many_operands(4000))
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize("program", mostly_wide(WIDE, ["_many_operands", "_many_results"], _name))
def test_wide_programs(program: Callable[[int], str]) -> None:
    assert hlo2onnx.translate(program(100)).verify()


# -- calls --------------------------------------------------------------------------------------


def _tower(levels: int) -> str:
    """Functions that call the next one twice."""
    calls = f"%0 = call @f$(%x) : ({ROW}) -> {ROW}\n%1 = call @f$(%0) : ({ROW}) -> {ROW}\n"
    bodies = [calls.replace("$", str(k + 1)) for k in range(levels)]
    bodies.append(f"%1 = stablehlo.sine %x : {ROW}\n")
    functions = "".join(
        f"func.func private @f{k}(%x: {ROW}) -> {ROW} {{ {body} return %1 : {ROW} }}\n"
        for k, body in enumerate(bodies)
    )
    main = f"%0 = call @f0(%x) : ({ROW}) -> {ROW}\n return %0 : {ROW}"
    return f"{functions} func.func @main(%x: {ROW}) -> {ROW} {{ {main} }}"


def test_calls_that_never_end() -> None:
    # Each function has two calls and a return, the last one two ops; each is an op itself.
    ops = 3 + 4 * (2**40 - 1) + 3 * 2**40
    with pytest.raises(hlo2onnx.LoadError) as caught:
        hlo2onnx.translate(_tower(40))
    assert f"it has {ops:,} ops; the limit is 1,000,000" in str(caught.value)
    assert 'next   keep them: functions="keep" (--functions keep)' in str(caught.value)


def test_calls_that_never_end_are_kept() -> None:
    program = hlo2onnx.translate(_tower(40), functions="keep")
    assert len(program.model.functions) == 41
    for run in (program, program.verify):
        with pytest.raises(hlo2onnx.VerificationError, match="runtimes inline all functions"):
            run(np.ones(2, np.float32))


def test_what_cannot_be_kept_counts() -> None:
    """JAX's own functions are inlined whatever is asked for."""
    text = _tower(40).replace("@f", "@closed_call_")
    with pytest.raises(hlo2onnx.LoadError, match="too many calls") as caught:
        hlo2onnx.translate(text, functions="keep")
    assert "next" not in str(caught.value)


def test_the_count_is_that_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    text, ops = _tower(5), 3 + 4 * (2**5 - 1) + 3 * 2**5
    assert hlo2onnx.translate(text).report.nodes == {"Sin": 32}
    monkeypatch.setattr(inlining, "INLINED_OPS", ops)
    hlo2onnx.translate(text)
    monkeypatch.setattr(inlining, "INLINED_OPS", ops - 1)
    with pytest.raises(hlo2onnx.LoadError, match="too many calls"):
        hlo2onnx.translate(text)


def test_large_programs_without_copies_are_none_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "INLINED_OPS", 1)
    hlo2onnx.translate(_many_functions(5))
