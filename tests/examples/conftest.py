"""Lets tests import examples/llm as its scripts import one another."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples" / "llm"))
