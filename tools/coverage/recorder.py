"""A pytest plugin that records the ops and element types that passing tests translate.

`pytest -p tools.coverage.recorder --record-ops FILE` appends a line of JSON for each such test. The
programs come from the debug log of `hlo2onnx.pipeline`, which names every program translated.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jaxlib.mlir import ir

LOGGER = "hlo2onnx.pipeline"
CUSTOM_CALL = "stablehlo.custom_call"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names the file."""
    parser.addoption("--record-ops", type=Path, help="append what the tests translate to this file")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the recorder."""
    path = config.getoption("--record-ops")
    if path is not None:
        config.pluginmanager.register(Recorder(path.resolve()), "op-recorder")


class Recorder(logging.Handler):
    """Collects the ops of the programs translated during one test."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.DEBUG)
        self._path = path
        self._ops: set[tuple[str, str]] = set()
        logger = logging.getLogger(LOGGER)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Notes the ops of a program; its source is the record's first argument."""
        arguments = record.args
        if isinstance(arguments, tuple):
            self._ops |= ops_of(arguments[0].module.operation)  # type: ignore[attr-defined]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[None]:
        """Writes down what a test translated, if it passed."""
        outcome = yield
        report = outcome.get_result()  # type: ignore[attr-defined]
        if report.when == "call" and report.passed:
            file = Path(item.location[0]).as_posix()
            line = json.dumps({"test": file, "ops": sorted(self._ops)})
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
        if report.when == "teardown":
            self._ops.clear()


def ops_of(module: Any) -> set[tuple[str, str]]:
    """(name, element type) of every op in a module; custom calls with their target."""
    found = set()

    def visit(operation: Any) -> Any:
        name = operation.name
        if name.partition(".")[0] in ("stablehlo", "chlo"):
            if name == CUSTOM_CALL:
                name += f" @{operation.attributes['call_target_name'].value}"
            found.add((name, element_of(operation)))
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return found


def element_of(operation: Any) -> str:
    """The element type of an op: its result's, or an operand's if the result is a predicate."""
    elements = [
        str(ir.RankedTensorType(value.type).element_type)
        for value in (*operation.results, *operation.operands)
        if isinstance(value.type, ir.RankedTensorType)
    ]
    kinds = ["quantized" if name.startswith("!quant") else name for name in elements]
    return next((kind for kind in kinds if kind != "i1"), kinds[0] if kinds else "")
