"""What XLA does with each element type of StableHLO: it aborts the process on some."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.extend import backend
from processes import run_python

import hlo2onnx
from hlo2onnx import VerificationError
from hlo2onnx.verify.xla import COMPILED_TYPES, XlaProgram

UNKNOWN = ["f6E2M3FN", "f6E3M2FN"]
PROGRAM = """
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = stablehlo.constant dense<1.0> : tensor<2x{0}>
  return %a : tensor<2xf32>
}}
"""


@pytest.mark.wide
def test_xla_compiles_known_types() -> None:
    """In one child: the first that is missing in its output is the one it died of."""
    out = run_python(
        """
        from hlo2onnx.frontend.mlir.context import parse_module
        from hlo2onnx.frontend.mlir.values import module_bytecode
        from hlo2onnx.verify.xla import COMPILED_TYPES, XlaProgram

        VALUES = {"i1": "true", "complex<f32>": "(1.0, 0.0)", "complex<f64>": "(1.0, 0.0)"}
        for element in sorted(COMPILED_TYPES):
            value = VALUES.get(element) or ("1" if "i" in element else "1.0")
            dense = f"stablehlo.constant dense<{value}>"
            text = "func.func @main() -> T { %0 = C : T return %0 : T }".replace("C", dense)
            other = "func.func @main(%0: T) -> T { %1 = C %0, dims = [0] : T return %1 : T }"
            other = other.replace("C", "stablehlo.reverse")
            results = []
            for item in (text, other):
                module = parse_module(item.replace("T", f"tensor<2x{element}>"), "it")
                results = XlaProgram(module_bytecode(module.operation))(results)
            print(element, [complex(item) for item in results[0]], flush=True)
        """
    )
    lines = [f"{element} {[1 + 0j] * 2}" for element in sorted(COMPILED_TYPES)]
    assert out.splitlines() == lines


@pytest.mark.parametrize("element", UNKNOWN)
def test_unknown_types_reach_no_compiler(element: str) -> None:
    assert element not in COMPILED_TYPES
    program = hlo2onnx.translate(PROGRAM.format(element))
    np.testing.assert_array_equal(program(np.float32([1, 2])), [1, 2])
    with pytest.raises(VerificationError, match=f"XLA has no element type {element}"):
        program.verify()


class Overflowing:
    """A client whose compiler fails as XLA of JAX 0.12 on an empty slice with a stride. That of
    JAX 0.10 ends the process there."""

    def local_devices(self) -> list[jax.Device]:
        return list(jax.local_devices(backend="cpu"))

    def compile_and_load(self, *_: object) -> None:
        raise ValueError("SmallVector unable to grow.")


def test_an_overflow_in_the_compiler_is_an_error_of_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "get_backend", lambda _: Overflowing())
    text = PROGRAM.format("f32")
    with pytest.raises(VerificationError, match=r"does not compile this module: SmallVector"):
        XlaProgram(text.encode())
