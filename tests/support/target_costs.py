"""The target "ort-cpu" with other costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hlo2onnx import pipeline
from hlo2onnx.targets import Target, load_target


def with_costs(**costs: int) -> Target:
    """ "ort-cpu" with these costs."""
    cpu = load_target("ort-cpu")
    return replace(cpu, costs=replace(cpu.costs, **costs))


def use_costs(monkeypatch: pytest.MonkeyPatch, **costs: int) -> None:
    """Makes translations use `with_costs(**costs)`."""
    target = with_costs(**costs)
    monkeypatch.setattr(pipeline, "load_target", lambda _: target)
