"""Changes of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import onnx
from onnx import helper

from tools.model_mutation.mutant import Mutant, Site

Values = Callable[[Any], list[Any]]
"""Other values of an attribute."""


def _flip(value: int) -> list[int]:
    return [1 - value] if value in (0, 1) else []


def _flip_all(value: list[int]) -> list[list[int]]:
    return [[1 - item for item in value]]


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


def _pads(value: list[int]) -> list[list[int]]:
    """One more at one end and one less at the other; neighbours swapped."""
    half = len(value) // 2
    made = []
    for place in range(half):
        for more, less in ((place, place + half), (place + half, place)):
            other = list(value)
            other[more] += 1
            other[less] -= 1
            if other[less] >= 0:
                made.append(other)
    return [*made, *_swapped(value)]


def _dilations(value: list[int]) -> list[list[int]]:
    return [*_swapped(value), [item + 1 for item in value]]


def _others(names: str, value: bytes) -> list[str]:
    return [name for name in names.split() if name.encode() != value]


_FLAGS = (
    "keepdims transA transB reverse exclusive largest sorted fmod upper inverse onesided is_causal"
    " ceil_mode count_include_pad select_last_index linear_before_reset detect_negative"
    " detect_positive saturate"
)
_WORDS = {
    "mode": "constant edge reflect wrap nearest linear DCR CRD",
    "direction": "forward reverse LEFT RIGHT",
    "approximate": "none tanh",
    "reduction": "none add mul max min",
    "coordinate_transformation_mode": "half_pixel asymmetric align_corners pytorch_half_pixel",
}
ATTRIBUTES: Mapping[str, Values] = {
    **dict.fromkeys(_FLAGS.split(), _flip),
    **dict.fromkeys(("axis", "batch_dims", "group", "k"), _near),
    **dict.fromkeys(("perm", "axes", "strides"), _swapped),
    **dict.fromkeys(("epsilon", "alpha", "beta", "scale", "softcap"), _larger),
    **dict.fromkeys(("scan_input_directions", "scan_output_directions"), _flip_all),
    "pads": _pads,
    "dilations": _dilations,
    **{name: partial(_others, words) for name, words in _WORDS.items()},
}
"""Other values by name of the attribute."""


def attributes(site: Site) -> Iterator[Mutant]:
    """Flips an attribute, or takes a neighbouring value; also of those that a node leaves out."""
    given = {item.name: helper.get_attribute_value(item) for item in site.node.attribute}
    for name, value in {**_defaults(site.node), **given}.items():
        for other in ATTRIBUTES[name](value) if name in ATTRIBUTES else ():
            shown = value.decode() if isinstance(value, bytes) else value
            detail = f"{name}: {shown} -> {other}"
            yield site.mutant(f"attribute {name}", detail, partial(_set, name, other))


def _defaults(node: onnx.NodeProto) -> dict[str, Any]:
    """The values of attributes that a node leaves out, by the newest schema."""
    if node.domain or not onnx.defs.has(node.op_type):
        return {}
    known = onnx.defs.get_schema(node.op_type).attributes.items()
    defaults = {name: item.default_value for name, item in known}
    return {
        name: helper.get_attribute_value(item)
        for name, item in sorted(defaults.items())
        if item.name
    }


def _set(name: str, value: Any, node: onnx.NodeProto) -> None:
    for place, attribute in enumerate(node.attribute):
        if attribute.name == name:
            del node.attribute[place]
            break
    node.attribute.append(helper.make_attribute(name, value))
