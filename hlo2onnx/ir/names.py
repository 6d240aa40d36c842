"""Unique names for the nodes and values of one model."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Hands out names; a name asked for again gets the suffix _1, _2, ..."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def take(self, names: Iterable[str]) -> None:
        """Learns of names that a model has."""
        for name in names:
            self._next.setdefault(name, 1)

    def unique_node(self, base: str, outputs: int) -> str:
        """A name for a node and its first output; the others are `name:1`, `name:2`, ...

        A value keeps its name when another node replaces its producer, so one of those may be taken
        although `name` is free.
        """
        while True:
            name = self.unique(base)
            if outputs == 1:
                return name
            others = [f"{name}:{index}" for index in range(1, outputs)]
            if self._next.keys().isdisjoint(others):
                self._next.update(dict.fromkeys(others, 1))
                return name

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
