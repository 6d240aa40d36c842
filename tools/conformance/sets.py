"""The groups of JAX's harnesses by family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tools.conformance.outcome import Case

FAMILIES: dict[str, str] = {
    "elementwise": """
        abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp cos cosh div eq
        erf erfc exp exp2 expm1 floor ge gt integer_pow is_finite le log log1p log2 logistic lt max
        min mul ne neg nextafter or population_count pow rem round rsqrt select_n shift_left
        shift_right_arithmetic shift_right_logical sign sin sinh sqrt sub tan tanh xor""",
    "types": "bitcast_convert_type convert_element_type reduce_precision",
    "movement": """
        broadcast_in_dim concatenate device_put iota pad reshape rev slice squeeze stop_gradient
        transpose""",
    "contraction": "conv_general_dilated dot_general",
    "reduction": "reduce reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum",
    "window": """
        argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_window_add
        reduce_window_max reduce_window_min reduce_window_mul""",
    "indexing": """
        approx_top_k dynamic_slice dynamic_update_slice gather scatter scatter_add scatter_max
        scatter_min scatter_mul select_and_gather_add select_and_scatter_add sort top_k""",
    "complex": "complex conj imag real",
    "special": """
        bessel_i0e bessel_i1e digamma erf_inv igamma igammac lgamma
        regularized_incomplete_beta""",
    "random": """
        iota_2x32_shape random_categorical random_gamma random_randint random_split random_uniform
        rng_bit_generator""",
    "linalg": """
        cholesky custom_linear_solve eig eigh lu qr svd triangular_solve tridiagonal_solve""",
    "fft": "fft",
}
"""Every group stands in exactly one family. A group may exist in some JAX versions only."""


def _names(*texts: str) -> frozenset[str]:
    return frozenset(" ".join(texts).split())


EXACT = _names(
    FAMILIES["types"],
    FAMILIES["movement"],
    "ceil clamp floor max min neg nextafter round select_n",
    "cummax cummin reduce_max reduce_min reduce_window_max reduce_window_min",
    "approx_top_k dynamic_slice dynamic_update_slice gather scatter scatter_max scatter_min",
    "select_and_gather_add sort top_k",
)
"""Groups that compute nothing: their results must be equal, and not merely close."""


def chosen(cases: Iterable[Case], groups: Sequence[str] = ("*",), every: int = 1) -> list[Case]:
    """Cases of some groups, ordered by group and name.

    Args:
        groups: fnmatch patterns of group names.
        every: Of the cases of each group, each `every`-th.
    """
    by_group: dict[str, list[Case]] = {}
    for case in sorted(cases, key=lambda case: (case.group, case.name)):
        if any(fnmatchcase(case.group, pattern) for pattern in groups):
            by_group.setdefault(case.group, []).append(case)
    return [case for group in by_group.values() for case in group[::every]]
