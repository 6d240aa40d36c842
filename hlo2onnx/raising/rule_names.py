"""Rule names as users give them: current, former and retired ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hlo2onnx.errors import UsageError
from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules import RULES

_BY_NAME: dict[str, Rule] = {name: rule for rule in RULES for name in (rule.name, *rule.formerly)}

RETIRED = frozenset(
    {"affine-to-batch-normalization", "carry-inner-loops", "carry-layout", "carry-recomputed",
     "channels-affine", "columns-first", "compare-clamped", "compare-extreme", "compare-quotient",
     "compose-scatters", "computed-table", "constant-unit-dims", "conv-filter-gradient",
     "decision-tree", "dequantize-before-broadcast", "equal-branches", "equal-results",
     "equal-states", "expand-dequantized", "first-trips-table", "fold-pad-into-conv",
     "fold-power-of-two", "gather-hoisting", "hoist-row-transpose", "hoist-threefry",
     "horizontal-fusion", "inline-single-trip", "inline-trip", "is-finite", "join-pads",
     "known-conditions", "known-state", "loop-peel", "masked-gather", "matmul-transpose",
     "negative-index-nd", "negative-tuple", "pack-rows", "pad-into-convolution",
     "pad-sum-to-concat", "permute-rows", "pipeline-threefry", "replace-zero",
     "resize-transposed", "reverse-cumsum", "rounded-rotation", "row-tables", "shift-unsigned",
     "shifted-carry", "sink-final-states", "sink-into-branches", "sink-transpose-resize",
     "skip-idle-trips", "skip-unselected", "slice-of-scatter", "slp-vectorize",
     "softmax-drop-unit-dims", "softmax-without-units", "squeeze-bias", "sum-after-loop",
     "sum-of-choices", "swap-product", "tile", "transpose-before-collapse",
     "transpose-before-join", "transpose-drop-unit-dims", "transpose-group-normalization",
     "transpose-without-units", "unmask-state", "vector-bias", "vector-dot", "where-to-branch",
     "while-fission", "wide-comparison", "widen-comparison", "zero-or-small"}
)  # fmt: skip
"""Names of deleted rules. `without=` still accepts them."""


def rules_named(names: Iterable[str], retired: bool = False) -> dict[str, Rule]:
    """The rules with these names, by their current name.

    Args:
        names: Current or former names.
        retired: Whether to skip names of deleted rules.

    Raises:
        UsageError: A name belongs to no rule.
    """
    given = set(names) - (RETIRED if retired else set())
    unknown = given - _BY_NAME.keys()
    if unknown:
        names = [name for text in sorted(unknown) for name in _like(text)]
        hint = f"; did you mean {', '.join(names)}?" if names else ": docs/rules.md lists the rules"
        raise UsageError(f"no rule named {', '.join(sorted(unknown))}{hint}")
    return {_BY_NAME[name].name: _BY_NAME[name] for name in given}


def _like(name: str) -> list[str]:
    """The rule with the most similar name, if there is one."""
    return difflib.get_close_matches(name, [rule.name for rule in RULES], 1)
