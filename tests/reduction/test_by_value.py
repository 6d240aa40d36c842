"""Functions that a child process gets by value."""

from __future__ import annotations

import math
import pickle
import re
import sys
from types import ModuleType
from typing import Any

import pytest

from hlo2onnx.errors import UsageError
from hlo2onnx.reduction.by_value import dumps


def sent(function: Any) -> Any:
    return pickle.loads(dumps(function, "the function"))


def of_script(code: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a script that is running."""
    script = ModuleType("__main__")
    exec(compile(code, "script.py", "exec"), script.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", script)
    return script


def test_functions_of_modules_go_by_name() -> None:
    assert sent(math.sqrt) is math.sqrt
    assert sent(re.match) is re.match


def test_lambdas_and_closures() -> None:
    limit = 3
    assert sent(lambda text: len(text) > limit)("four")
    assert sent(lambda x, y=2, *, z=math: z.floor(x) + y)(1.5) == 3


def test_functions_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import re
WORD = re.compile("a+")
def found(text): return bool(WORD.search(text))
def both(text): return found(text) and "b" in text
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n > 0 and even(n - 1)
def nested(text): return any((lambda c: c == LAST)(c) for c in text)
LAST = "z"
"""
    script = of_script(code, monkeypatch)
    assert sent(script.both)("aab")
    assert not sent(script.both)("bbb")
    assert sent(script.even)(4)
    assert sent(script.nested)("xyz")


@pytest.mark.parametrize(
    "code",
    [
        "class Text: pass\ndef f(text): return Text()",
        "import sys\nfile = sys.stdout\nf = lambda t: file",
    ],
)
def test_what_cannot_be_sent(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = of_script(code, monkeypatch)
    with pytest.raises(UsageError, match="cannot be sent to the child process") as caught:
        dumps(script.f, "the function")
    assert "\n  next   define it" in str(caught.value)
