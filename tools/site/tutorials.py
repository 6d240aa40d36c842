"""Tutorials: percent scripts that run as notebooks, as pages with their outputs."""

from __future__ import annotations

import tempfile
from functools import cache

import jupytext
from nbconvert.exporters import MarkdownExporter
from nbconvert.preprocessors import ExecutePreprocessor


@cache  # `mkdocs serve` builds again and again
def executed(script: str) -> str:
    """The page of a script, in Markdown. Files that the script writes are lost.

    Raises:
        CellExecutionError: A cell fails.
    """
    notebook = jupytext.reads(script, fmt="py:percent")
    with tempfile.TemporaryDirectory() as folder:
        quiet = ["--IPKernelApp.log_level=40"]
        run = ExecutePreprocessor(timeout=600, kernel_name="python3", extra_arguments=quiet)
        run.preprocess(notebook, {"metadata": {"path": folder}})
    page: str = MarkdownExporter().from_notebook_node(notebook)[0]
    return page
