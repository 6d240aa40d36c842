"""A folder with models for tests of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

MODEL = """
func.func @main(%arg0: tensor<3xf32> loc("x"), %arg1: tensor<f32> loc("params['scale']"))
    -> (tensor<3xf32> {jax.result_info = "result.y"}) {
  %0 = stablehlo.tanh %arg0 : tensor<3xf32>
  %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}
"""
UNSUPPORTED = """
#loc1 = loc("train.py":7:3)
#loc2 = loc("train.py":9:3)
func.func @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @mystery(%arg0) : (tensor<3xf32>) -> tensor<3xf32> loc(#loc1)
  %1 = stablehlo.custom_call @riddle(%0) : (tensor<3xf32>) -> tensor<3xf32> loc(#loc2)
  return %1 : tensor<3xf32>
}
"""

CALLING_BACK = """
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<i1>) -> tensor<3xf32> {
  %0 = "stablehlo.if"(%arg1) ({
    %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0)
      : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }, {
    stablehlo.return %arg0 : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""


def folder_with_models(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Changes to an empty folder, and puts the models above into `models`."""
    monkeypatch.chdir(path)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    models = path / "models"
    models.mkdir()
    (models / "good.mlir").write_text(MODEL)
    (models / "bad.mlir").write_text(UNSUPPORTED)
    (models / "calling_back.mlir").write_text(CALLING_BACK)
    (models / "00_load.mlir").write_text(MODEL)
    (models / "link.mlir").symlink_to("good.mlir")
    (models / "hard.mlir").hardlink_to(models / "good.mlir")
    (models / "dangling").symlink_to("../r.json")
    (models / "t.json").touch()
    return path
