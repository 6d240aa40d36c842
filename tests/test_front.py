"""The names of the package."""

from __future__ import annotations

import subprocess
import sys
from typing import get_type_hints

import pytest

import hlo2onnx
import hlo2onnx.runtime


def test_dir_lists_the_api_alone() -> None:
    assert dir(hlo2onnx) == sorted([*hlo2onnx.__all__, "genai", "policy", "runtime"])
    for name in ("Report", "Profile", "Refusal", "Verification", "load", "translate"):
        assert name in hlo2onnx.__all__


@pytest.mark.parametrize("name", [*hlo2onnx.__all__, "genai", "policy", "runtime"])
def test_every_name_is_there(name: str) -> None:
    assert getattr(hlo2onnx, name) is getattr(hlo2onnx, name)


@pytest.mark.parametrize("name", hlo2onnx.runtime.__all__)
def test_every_name_of_the_runtime_is_there(name: str) -> None:
    assert getattr(hlo2onnx.runtime, name) is getattr(hlo2onnx.runtime, name)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'tranlsate'"):
        hlo2onnx.tranlsate  # noqa: B018


def test_types_of_load_are_there() -> None:
    assert get_type_hints(hlo2onnx.load)["return"] is hlo2onnx.OnnxProgram


def test_a_look_imports_nothing() -> None:
    script = (
        "import sys, hlo2onnx; dir(hlo2onnx); print('jax' in sys.modules, 'onnx' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False False\n"
