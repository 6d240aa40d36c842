"""Changes of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx
from onnx import helper

from tools.model_mutation.mutant import Mutant, Site

Values = Callable[[Any], list[Any]]
"""Other values of an attribute."""


def _flip(value: int) -> list[int]:
    return [1 - value] if value in (0, 1) else []


def _near(value: int) -> list[int]:
    return [value + 1, value - 1]


def _larger(value: float) -> list[float]:
    return [value * 10, value * 1.001]


def _swapped(value: list[int]) -> list[list[int]]:
    """Neighbours in a list swapped."""
    made = []
    for place in range(len(value) - 1):
        other = list(value)
        other[place : place + 2] = other[place : place + 2][::-1]
        made.append(other)
    return [other for other in made if other != value]


def _shifted(value: list[int]) -> list[list[int]]:
    """One more at one end and one less at the other."""
    half = len(value) // 2
    made = []
    for place in range(half):
        for more, less in ((place, place + half), (place + half, place)):
            other = list(value)
            other[more] += 1
            other[less] -= 1
            if other[less] >= 0:
                made.append(other)
    return made


def _others(*names: str) -> Values:
    return lambda value: [name for name in names if name.encode() != value]


ATTRIBUTES: Mapping[str, Values] = {
    "axis": _near,
    "batch_dims": _near,
    "keepdims": _flip,
    "transA": _flip,
    "transB": _flip,
    "perm": _swapped,
    "axes": _swapped,
    "pads": lambda value: [*_shifted(value), *_swapped(value)],
    "strides": _swapped,
    "dilations": lambda value: [*_swapped(value), [item + 1 for item in value]],
    "group": _near,
    "k": _near,
    "reverse": _flip,
    "exclusive": _flip,
    "largest": _flip,
    "sorted": _flip,
    "fmod": _flip,
    "upper": _flip,
    "inverse": _flip,
    "onesided": _flip,
    "is_causal": _flip,
    "ceil_mode": _flip,
    "count_include_pad": _flip,
    "select_last_index": _flip,
    "linear_before_reset": _flip,
    "detect_negative": _flip,
    "detect_positive": _flip,
    "saturate": _flip,
    "epsilon": _larger,
    "alpha": _larger,
    "beta": _larger,
    "scale": _larger,
    "softcap": _larger,
    "scan_input_directions": lambda value: [[1 - item for item in value]],
    "scan_output_directions": lambda value: [[1 - item for item in value]],
    "mode": _others("constant", "edge", "reflect", "wrap", "nearest", "linear", "DCR", "CRD"),
    "direction": _others("forward", "reverse", "LEFT", "RIGHT"),
    "approximate": _others("none", "tanh"),
    "reduction": _others("none", "add", "mul", "max", "min"),
    "coordinate_transformation_mode": _others(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
    ),
}
"""Other values by name of the attribute."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "CumSum": {"reverse": 0, "exclusive": 0},
    "Mod": {"fmod": 0},
    "Gemm": {"transA": 0, "transB": 0},
    "TopK": {"largest": 1},
    "Softmax": {"axis": -1},
    "LogSoftmax": {"axis": -1},
    "Gather": {"axis": 0},
    "ArgMax": {"select_last_index": 0},
    "ArgMin": {"select_last_index": 0},
    "ReduceSum": {"keepdims": 1},
    "ReduceMax": {"keepdims": 1},
    "ReduceMean": {"keepdims": 1},
    "Trilu": {"upper": 1},
    "LayerNormalization": {"epsilon": 1e-5},
    "Gelu": {"approximate": b"none"},
    "ScatterElements": {"reduction": b"none"},
    "ScatterND": {"reduction": b"none"},
    "Pad": {"mode": b"constant"},
}
"""Values of attributes that a node leaves out."""


def attributes(site: Site) -> Iterator[Mutant]:
    """Flips an attribute, or takes a neighbouring value."""
    given = {item.name: helper.get_attribute_value(item) for item in site.node.attribute}
    for name, value in {**DEFAULTS.get(site.op, {}), **given}.items():
        for other in ATTRIBUTES[name](value) if name in ATTRIBUTES else ():
            kind = f"attribute {name}"
            yield site.mutant(kind, f"{name}: {_shown(value)} -> {other}", _setter(name, other))


def _setter(name: str, value: Any) -> Callable[[onnx.NodeProto], None]:
    def change(node: onnx.NodeProto) -> None:
        for place, attribute in enumerate(node.attribute):
            if attribute.name == name:
                del node.attribute[place]
                break
        node.attribute.append(helper.make_attribute(name, value))

    return change


def _shown(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
