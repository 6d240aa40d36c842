"""Every limitation has a program that meets it, and an error that says so."""

from __future__ import annotations

import pytest

from hlo2onnx import TranslationError, translate
from hlo2onnx.limitations import LIMITATIONS, limitation_of, unsupported

T = "tensor<4xf32>"
C = "tensor<4xcomplex<f32>>"


def main(body: str, result: str = T, argument: str = T, module: str = "") -> str:
    return f"""
    module attributes {{{module}}} {{ func.func public @main(%x: {argument}) -> {result} {{
      {body}
      return %0 : {result}
    }} }}
    """


def call(target: str, result: str = T) -> str:
    return main(f'%0 = stablehlo.custom_call @"{target}"(%x) : ({T}) -> {result}', result)


def dot(lhs: str, result: str, more: str = "") -> str:
    return main(
        f"""{more}
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0]
        : ({lhs}, {lhs}) -> {result}""",
        result,
        lhs,
    )


EXCHANGE = f"""%2 = "stablehlo.collective_permute"(%x)
    {{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}} : ({T}) -> {T}"""

PROGRAMS = {
    "host transfer": main(
        f"""%t = stablehlo.create_token : !stablehlo.token
      %0, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) -> ({T}, !stablehlo.token)"""
    ),
    "io_callback": call("xla_ffi_python_cpu_callback").replace(
        f"-> {T}\n", f'-> {T} loc("jit(f)/io_callback:")\n'
    ),
    "callback": call("xla_ffi_python_cpu_callback"),
    "kernel": call("tpu_custom_call"),
    "custom partitioning": call("CustomSPMDPartitioning"),
    "groups": main(
        f"""%0 = "stablehlo.all_to_all"(%x) {{split_dimension = 0 : i64,
        concat_dimension = 0 : i64, split_count = 2 : i64,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : ({T}) -> {T}"""
    ),
    "shards": call("SPMDFullToShardShape", "tensor<2xf32>"),
    "ragged exchange": call("ragged_all_to_all"),
    "exchange": main(
        f"""%n = stablehlo.replica_id : tensor<ui32>
      %0 = stablehlo.while(%v = %x) : {T} cond {{
        %c = stablehlo.compare EQ, %n, %n : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{ {EXCHANGE} stablehlo.return %2 : {T} }}""",
        module="mhlo.num_replicas = 2",
    ),
    "results per device": main(
        "%0 = stablehlo.replica_id : tensor<ui32>", "tensor<ui32>", T, "mhlo.num_replicas = 2"
    ),
    "order of complex numbers": main(
        f"%0 = stablehlo.compare LT, %x, %x : ({C}, {C}) -> tensor<4xi1>", "tensor<4xi1>", C
    ),
    "loop in a scalar region": main(
        f"""%0 = "stablehlo.map"(%x) ({{ ^bb0(%a: tensor<f32>):
        %r = stablehlo.while(%v = %a) : tensor<f32> cond {{
          %n = stablehlo.constant dense<9.0> : tensor<f32>
          %c = stablehlo.compare LT, %v, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %d = stablehlo.add %v, %v : tensor<f32>
          stablehlo.return %d : tensor<f32>
        }}
        stablehlo.return %r : tensor<f32>
      }}) {{dimensions = array<i64: 0>}} : ({T}) -> {T}"""
    ),
    "fixed size": main(
        f"""%n = stablehlo.constant dense<2> : tensor<i32>
      %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : ({T}, tensor<i32>) -> {T}"""
    ),
    "collapsed nothing": main(
        """%i = stablehlo.constant dense<0> : tensor<1x1xi32>
      %0 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 0>} : (tensor<4xf32>, tensor<1x1xi32>) -> tensor<1xf32>""",
        "tensor<1xf32>",
    ),
    "integer sum of float products": dot(T, "tensor<i32>"),
    "mixed parts": dot(C, "tensor<f32>"),
    "bits of complex numbers": main(
        """%0 = stablehlo.bitcast_convert %x
        : (tensor<4x2xcomplex<f32>>) -> tensor<4xcomplex<f64>>""",
        "tensor<4xcomplex<f64>>",
        "tensor<4x2xcomplex<f32>>",
    ),
    "state of a generator": main(
        """%s, %0 = "stablehlo.rng_bit_generator"(%x)
        {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}
        : (tensor<4xui32>) -> (tensor<4xui32>, tensor<4xui32>)""",
        "tensor<4xui32>",
        "tensor<4xui32>",
    ),
}


@pytest.mark.parametrize("name", LIMITATIONS)
def test_the_error_says_why_and_what_to_do(name: str) -> None:
    limitation = LIMITATIONS[name]
    with pytest.raises(TranslationError) as caught:
        translate(PROGRAMS[name])
    refusals = [item for item in caught.value.refusals if item.why.startswith(limitation.reason)]
    assert refusals, caught.value
    assert refusals[0].next == limitation.advice
    assert refusals[0].op in limitation.ops


def test_every_limitation_is_said_in_full() -> None:
    for limitation in LIMITATIONS.values():
        assert limitation.ops and limitation.condition and limitation.reason and limitation.advice


def test_an_op_without_limitation() -> None:
    assert limitation_of("stablehlo.add") is None
    assert str(unsupported("groups", "3 of them")).endswith("(3 of them)")
