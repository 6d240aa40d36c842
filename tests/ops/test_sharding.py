"""Shardings of every kind, and custom calls in general."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

from hlo2onnx import TranslationError, translate
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call
from hlo2onnx.report import SHARDINGS_DROPPED

UNARY = """
module {{
  {symbols}
  func.func public @main(%arg0: tensor<2x3x{element}>{argument}) -> tensor<2x3x{element}> {{
    {before}
    %0 = {body}
    return %0 : tensor<2x3x{element}>
  }}
}}
"""
MESH = 'sdy.mesh @mesh = <["x"=1, "y"=1]>'


def unary(
    body: str, symbols: str = MESH, element: str = "f32", argument: str = "", before: str = ""
) -> str:
    text = UNARY.format(
        symbols=symbols, element=element, argument=argument, before=before, body=body
    )
    return text.replace("TYPE", f"tensor<2x3x{element}>")


ANNOTATIONS = [
    'sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {}]> : TYPE',
    'sdy.sharding_constraint %arg0 <mesh<["x"=4]>, [{"x"}, {}]> : TYPE',
    'sdy.reshard %arg0 <@mesh, [{}, {"x"}]> : TYPE',
    "sdy.propagation_barrier %arg0 allowed_direction=BACKWARD : TYPE",
    'stablehlo.custom_call @Sharding(%arg0) {backend_config = "unspecified_dims=[1]",'
    ' mhlo.sharding = "{devices=[2,1]<=[2]}"} : (TYPE) -> TYPE',
    'stablehlo.custom_call @SPMDFullToShardShape(%arg0) {mhlo.sharding = "{manual}"}'
    " : (TYPE) -> TYPE",
    'stablehlo.custom_call @SPMDShardToFullShape(%arg0) {mhlo.sharding = "{replicated}"}'
    " : (TYPE) -> TYPE",
]


@pytest.mark.parametrize("body", ANNOTATIONS)
@pytest.mark.parametrize("element", ["f32", "i1", "complex<f32>"])
def test_annotations_are_dropped_with_a_note(body: str, element: str) -> None:
    program = translate(unary(body, element=element))
    assert SHARDINGS_DROPPED in program.report.notes
    x = (np.arange(6).reshape(2, 3) % 4).astype(
        {"f32": "f4", "i1": "?", "complex<f32>": "c8"}[element]
    )
    np.testing.assert_array_equal(program(x), x)


@pytest.mark.parametrize("mesh", ["@empty_mesh", "@mesh"])
def test_shardings_of_no_axes_need_no_note(mesh: str) -> None:
    """JAX writes the first on the words of typed PRNG keys."""
    symbols = f"sdy.mesh @empty_mesh = <[]>\n{MESH}"
    body = f"sdy.sharding_constraint %arg0 <{mesh}, [{{}}, {{}}]> : TYPE"
    assert translate(unary(body, symbols=symbols)).report.notes == []


@pytest.mark.parametrize("body", [ANNOTATIONS[0], *ANNOTATIONS[4:]])
def test_xla_agrees(body: str) -> None:
    against_xla(unary(body)).bit_exact().graph_is("Identity")


@pytest.mark.parametrize(
    "body",
    [
        'stablehlo.custom_call @LayoutConstraint(%arg0) {backend_config = "",'
        " operand_layouts = [dense<[0, 1]> : tensor<2xindex>],"
        " result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (TYPE) -> TYPE",
        "stablehlo.custom_call @annotate_device_placement(%arg0) {has_side_effect = true,"
        ' mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (TYPE) -> TYPE',
        "stablehlo.custom_call @MoveToHost(%arg0) : (TYPE) -> TYPE",
        "stablehlo.custom_call @MoveToDevice(%arg0) : (TYPE) -> TYPE",
    ],
)
def test_placements_are_dropped(body: str) -> None:
    assert against_xla(unary(body)).bit_exact().program.report.notes == []


def test_attributes_of_ops_and_arguments_are_dropped_with_a_note() -> None:
    add = 'stablehlo.add %arg0, %arg0 {mhlo.sharding = "{replicated}"} : TYPE'
    assert against_xla(unary(add)).bit_exact().program.report.notes == [SHARDINGS_DROPPED]
    add, argument = "stablehlo.add %arg0, %arg0 : TYPE", ' {mhlo.sharding = "{replicated}"}'
    run = against_xla(unary(add, argument=argument)).bit_exact()
    assert run.program.report.notes == [SHARDINGS_DROPPED]
    assert against_xla(unary(add)).program.report.notes == []


@pytest.mark.parametrize(
    ("sharding", "body"),
    [
        ('[{"x"}, {}]', 'sdy.all_gather [{"x"}, {}] %1 out_sharding=<@mesh, [{}, {}]> : TYPE'),
        ("[{}, {}]", 'sdy.all_slice [{"x"}, {}] %1 out_sharding=<@mesh, [{"x"}, {}]> : TYPE'),
        ('[{"x"}, {}]', 'sdy.all_to_all [{"x"}: 0->1] %1 out_sharding=<@mesh, [{}, {"x"}]> : TYPE'),
        ('[{"x"}, {}]', 'sdy.collective_permute %1 out_sharding=<@mesh, [{"y"}, {}]> : TYPE'),
    ],
)
def test_data_between_devices_stays_where_it_is(sharding: str, body: str) -> None:
    before = f"""%1 = stablehlo.reverse %arg0, dims = [0]
      {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, {sharding}>]>}} : TYPE"""
    program = translate(unary(body, before=before))
    assert program.report.notes == [SHARDINGS_DROPPED]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(program(x), x[::-1])


def test_data_flow_edge() -> None:
    before = "%1:2 = stablehlo.optimization_barrier %arg0, %arg0 : TYPE, TYPE"
    program = translate(unary("sdy.data_flow_edge %1#1 : TYPE", before=before))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(program(x), x)


def test_sharding_group() -> None:
    body = "stablehlo.add %arg0, %arg0 : TYPE\n    sdy.sharding_group %0 group_id=21 : TYPE"
    program = translate(unary(body))
    assert program.report.notes == [SHARDINGS_DROPPED]
    np.testing.assert_array_equal(program(np.ones((2, 3), np.float32)), np.full((2, 3), 2.0))


MANUAL = """sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
      out_shardings=[<@mesh, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%arg1: {local}) {{
        %1 = stablehlo.reverse %arg1, dims = [0] : {local}
        sdy.return %1 : {local}
      }} : (TYPE) -> TYPE"""


@pytest.mark.parametrize("element", ["f32", "complex<f32>"])
def test_manual_computation_on_one_device_is_inlined(element: str) -> None:
    text = unary(MANUAL.format(local=f"tensor<2x3x{element}>"), element=element)
    run = against_xla(text).bit_exact()
    assert run.program.report.notes == [SHARDINGS_DROPPED]


@pytest.mark.parametrize("mesh", ['"x"=2', '"a"=2, "x"=2'])
def test_manual_computation_on_several_devices(mesh: str) -> None:
    text = unary(MANUAL.format(local="tensor<1x3xf32>"), symbols=f"sdy.mesh @mesh = <[{mesh}]>")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(translate(text)(x), x)


def test_custom_partitioning_is_refused() -> None:
    """The call holds an address: no translation can be registered for it."""
    text = unary("stablehlo.custom_call @CustomSPMDPartitioning(%arg0) : (TYPE) -> TYPE")
    with pytest.raises(TranslationError, match=r"custom_partitioning(.*\n)*.*mesh of one device"):
        translate(text)


@pytest.mark.parametrize("others", [8, 1024])
def test_other_axes_may_have_several_devices(others: int) -> None:
    """Only what is manual runs on shards; the rest of the mesh is the partitioner's business."""
    text = unary(
        MANUAL.format(local="tensor<2x3xf32>"), symbols=f'sdy.mesh @mesh = <["x"=1, "y"={others}]>'
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(translate(text)(x), x[::-1])


def test_named_computation_is_inlined() -> None:
    body = """sdy.named_computation<"double">(%arg0) (%arg1: TYPE) {
        %1 = stablehlo.add %arg1, %arg1 : TYPE
        sdy.return %1 : TYPE
      } : (TYPE) -> TYPE"""
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(translate(unary(body))(x), 2 * x)


def test_shards_of_several_devices_are_refused() -> None:
    with pytest.raises(
        TranslationError, match=r"@SPMDFullToShardShape: each device works on its own"
    ):
        translate("""
        module { func.func public @main(%arg0: tensor<4xf32>) -> tensor<2xf32> {
          %0 = stablehlo.custom_call @SPMDFullToShardShape(%arg0) : (tensor<4xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        } }
        """)


def test_an_unknown_custom_call_is_named() -> None:
    text = unary(
        "stablehlo.custom_call @my.kernel(%arg0) {has_side_effect = true} : (TYPE) -> TYPE"
    )
    with pytest.raises(TranslationError, match=r"unknown custom call @my\..*\n(.*\n)*.*register"):
        translate(text)


@handles_call("tests.scale", form="any")
def scale(em: Emitter, op: CustomCall, *, times: int, label: str = "none") -> list[Parts]:
    """@tests.scale(x) -> x + x when asked for twice."""
    assert label in ("none", "given")
    (parts,) = (em.parts(operand) for operand in op.operands)
    return [tuple(em.Add(part, part) for part in parts) if times == 2 else parts]


@pytest.mark.parametrize(
    "configuration",
    [
        'api_version = 4 : i32, backend_config = {times = 2 : i64, label = "given"}',
        "mhlo.backend_config = {times = 2 : ui8}",
        "mhlo.attributes = {times = 2 : i64}, mhlo.version = 1 : i64",
        "backend_config = {times = 2 : i32}, api_version = 4 : i32, has_side_effect = true,"
        " operand_layouts = [dense<[0, 1]> : tensor<2xindex>],"
        " result_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases ="
        " [#stablehlo.output_operand_alias<output_tuple_indices = [],"
        " operand_index = 0, operand_tuple_indices = []>]",
    ],
)
@pytest.mark.parametrize("element", ["f32", "complex<f32>"])
def test_a_handler_gets_the_configuration(configuration: str, element: str) -> None:
    body = f"stablehlo.custom_call @tests.scale(%arg0) {{{configuration}}} : (TYPE) -> TYPE"
    x = np.arange(6).reshape(2, 3).astype("f4" if element == "f32" else "c8")
    np.testing.assert_array_equal(translate(unary(body, element=element))(x), 2 * x)


@pytest.mark.parametrize(
    ("configuration", "why"),
    [
        ("", "attribute times is missing"),
        ('backend_config = "opaque"', "unknown attribute backend_config = opaque"),
        ("mhlo.backend_config = {times = 2, often = true}", "unknown attribute often = True"),
        ("mhlo.backend_config = {times = 2}, called_computations = [@main]", "called_computations"),
    ],
)
def test_an_unknown_configuration_is_refused(configuration: str, why: str) -> None:
    body = f"stablehlo.custom_call @tests.scale(%arg0) {{{configuration}}} : (TYPE) -> TYPE"
    with pytest.raises(TranslationError, match=why):
        translate(unary(body))
