"""Text that may be parsed in this process, and text that could bring MLIR down."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from hlo2onnx.frontend.mlir import untrusted as text_allowlist
from hlo2onnx.frontend.mlir.untrusted import CHAIN, DEPTH, is_harmless

ROOT = Path(__file__).parents[2]
GOOD = "func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }\n"


def _attributes(content: str) -> str:
    return f"module attributes {{a.a = {content}}} {{ {GOOD} }}"


def _chain(first: str, link: str, count: int, end: str) -> str:
    """Aliases of which each names the one before; `$` is a number in `link` and `end`."""
    links = (link.replace("$0", str(i)).replace("$1", str(i + 1)) for i in range(count))
    return f"{first}\n{''.join(links)}{end.replace('$', str(count))}"


DEADLY = {
    "minus": _attributes("affine_map<() -> (" + "-" * 2_000_000 + "1)>"),
    "minus d0": _attributes("affine_map<(d0) -> (" + "- " * 300_000 + "d0)>"),
    "comparison": _attributes(
        "[affine_set<(d0) : (" + "d0 >= 0, " * 40_000 + "d0 == 0)>, " + "[" * 30_000
    ),
    "brackets after an arrow": _attributes("[" + "() -> () " + "[" * 100_000),
    "types": _chain(
        "!a0 = tensor<f32>",
        "!a$1 = tuple<!a$0>\n",
        100_000,
        "func.func @main(%a: !a$) { return }",
    ),
    "attributes": _chain("#a0 = [1]", "#a$1 = [#a$0]\n", 100_000, _attributes("#a$")),
    "locations": _chain(
        "#a0 = loc(unknown)",
        '#a$1 = loc("x"(#a$0))\n',
        100_000,
        "module {} loc(#a$)",
    ),
    "result number": GOOD.replace("{", '{ "stablehlo.foo"(%x#4000000000) : (i32) -> ()'),
    "carriage return": "// \r" + _attributes("[" * 100_000 + "]" * 100_000),
    "symbol body": "module attributes {a = #foo<[ //]>, b = " + "[" * 100_000 + "\n} {}",
}
"""Each of them is, or was once, the death of a process that parses it."""


@pytest.mark.costly
@pytest.mark.parametrize("name", DEADLY)
def test_deadly(name: str) -> None:
    assert not is_harmless(DEADLY[name])


SUSPICIOUS = {
    "escaped bytes": GOOD.replace("@main", '@"m\\C3\\A9"'),
    "vhlo": '"vhlo.func_v1"() : () -> ()',
    "deep": "(" * (DEPTH + 1) + ")" * (DEPTH + 1),
    "arrows close nothing": "(->" * 500,
    "a bracket in a string": '")" (' * 500,
    "a bracket in a comment": "//)\n(" * 500,
    "an end in a comment": "// >\n" + GOOD,
    "a string in a comment": '// "\n' + GOOD + '"',
    "an escaped quote": _attributes('"\\""'),
    "a newline in a string": _attributes('"\n"'),
    "an open string": GOOD + '"',
    "an op of another dialect": GOOD.replace("{", "{ linalg.foo", 1),
    "its generic form": GOOD.replace("{", '{ "linalg.foo"() : () -> ()'),
    "an attribute of another dialect": _attributes("#foo.bar"),
    "its body": _attributes("#foo<bar>"),
    "a type of another dialect": _attributes("!foo.bar"),
    "a word that opens": _attributes("sparse<1, 2>"),
    "a map": _attributes("affine_map<() -> (1)>"),
    "at least": _attributes("[1 >= 2]"),
    "an equation": _attributes("[1 == 2]"),
    "two signs": _attributes("--1"),
    "a sign apart": _attributes("- 1"),
    "a long integer": _attributes("7" * 1000),
    "a long fraction": _attributes("0." + "7" * 1000),
    "a long exponent": _attributes("1.0e1" + "0" * 1000),
    "a large result number": GOOD.replace("return %a", "return %a#100000"),
    "a multiline alias": "#a = [\n1]\n" + GOOD,
    "a continued alias": "#a = loc\n(unknown)\n" + GOOD,
    "an alias of later ones": "#a = [#b]\n#b = [1]\n" + GOOD,
    "an alias of itself": "#a = [#a]\n" + GOOD,
    "two on a line": "#a = [1] #b = [2]\n" + GOOD,
    "a long chain": _chain("#a0 = [1]", "#a$1 = [#a$0]\n", CHAIN, GOOD),
    "many leaves": _chain("#a0 = [1]", "#a$1 = [#a$0, #a$0]\n", 30, GOOD),
}


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_suspicious(name: str) -> None:
    assert not is_harmless(SUSPICIOUS[name])


HARMLESS = {
    "a program": GOOD,
    "brackets": "(" * DEPTH + ")" * DEPTH,
    "brackets in a string": '"' + "(" * 1000 + '"',
    "brackets in a comment": "// " + "(" * 1000 + "\n",
    "a comment at the end": GOOD + "// the end",
    "lines of Windows": f"// a\n{GOOD}".replace("\n", "\r\n"),
    "function types": "() -> () -> " * 500,
    "paths": 'module {} loc("/usr//lib/a.py":12:34 to :56)',
    "a stack": _chain(
        '#a0 = loc("a.py":1:2)', "#a$1 = loc(callsite(#a0 at #a$0))\n", 100, "module {} loc(#a$)"
    ),
    "a symbol in quotes": GOOD.replace("{", '{ call @"f:<lambda>"(%a) : (tensor<f32>) -> ()', 1),
    "a location of a name": 'module {} loc("jit(f)/add"("a.py":1:2))',
    "numbers": _attributes("[-1, 1.5e-10, -1.0E+3, 0x7FC00000, 1 : i64]"),
    "dynamic": GOOD.replace("f32", "?x4xf32").replace("return %a", "return %a#1"),
    "bounded": GOOD.replace("f32", "?x4xf32, #stablehlo.bounds<4, ?>"),
    "unranked": GOOD.replace("f32", "*xf32"),
    "complex": GOOD.replace("f32", "4xcomplex<f32>"),
    "quantized": GOOD.replace("f32", "2x!quant.uniform<i8<-128:127>:f32:0, {1.0:-3,2.0}>"),
    "attributes of any dialect": _attributes('true, torch.b = "c", d.e = 1 : i32, f.g'),
    "a resource": GOOD + '{-# dialect_resources: { builtin: { a: "0x0400" } } #-}',
    "a splat": GOOD.replace("return", "%0 = stablehlo.constant dense<-1.5> : tensor<2xf32> return"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless(name: str) -> None:
    assert is_harmless(HARMLESS[name])


FILES = sorted([*ROOT.glob("examples/mlir/*.mlir"), *ROOT.glob("tests/producers/*.mlir")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files(path: Path) -> None:
    assert is_harmless(path.read_text())


def test_what_jax_writes() -> None:
    weights = np.linspace(0, 1, 10_000, dtype=np.float32).reshape(100, 100)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))

    @jax.jit
    def program(x: Any) -> Any:
        y = jax.lax.with_sharding_constraint(x @ weights, spec)
        y = jnp.linalg.qr(y)[0] + jax.lax.cumsum(y) + jnp.asarray(y, jnp.bfloat16)
        return jax.lax.fori_loop(0, 3, lambda i, z: jnp.sin(z) + i, y), jnp.fft.fft(y)

    exported = jax.export.export(program)(weights)
    lowered = program.lower(weights)
    texts = [
        exported.mlir_module(),
        lowered.as_text(),
        lowered.as_text(debug_info=True),
        lowered.compiler_ir().operation.get_asm(enable_debug_info=True, print_generic_op_form=True),
    ]
    assert [is_harmless(text) for text in texts] == [True] * 4


@pytest.mark.parametrize(
    "text",
    [
        GOOD + "1x" * 500_000,
        GOOD + "7" * 1_000_000,
        GOOD + "#a = 1" + "\n" * 1_000_000 + "(",
        GOOD + "tensor" + " " * 1_000_000,
        GOOD + '"" ("' * 200_000,
        GOOD + '%0 = stablehlo.constant dense<"0x' + "0123ABCD" * 4_000_000 + '"> : tensor<f32>',
    ],
    ids=range(6),
)
def test_time(text: str) -> None:
    start = time.process_time()
    text_allowlist.is_harmless(text)
    assert time.process_time() - start < 1
