"""Unique names for the nodes and values of one model."""

from __future__ import annotations


class Names:
    """Hands out names; a name asked for again gets the suffix _1, _2, ..."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def unique(self, base: str) -> str:
        """`base` itself the first time, later `base_1`, `base_2`, ..."""
        count = self._next.get(base)
        if count is None:
            self._next[base] = 1
            return base
        name = f"{base}_{count}"
        while name in self._next:
            count += 1
            name = f"{base}_{count}"
        self._next[base] = count + 1
        self._next[name] = 1
        return name
