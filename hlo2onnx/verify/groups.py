"""The groups of a graph: scopes, bodies of nodes, functions and parts.

A program may enter a scope several times, such as a module that is called twice. One group for all
of its nodes would make circles: the group and the nodes between two calls need one another. A node
that would close a circle begins a new group for its scope.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Key: TypeAlias = int | str
"""A child of a group: the place of a group, or the name of a node."""

_SEARCHED = 2000
"""Children that are visited to look for a circle. With more, a new group is made to be safe."""


@dataclass
class Group:
    """A scope, the body of a node, a function, or a part of a large group.

    Attributes:
        name: What is shown.
        parent: Place of the group around it; -1 for the whole graph.
        kind: "scope", "body", "function", "part" or "ports".
        owner: Place of the node with this body; -1 if it is no body.
    """

    name: str
    parent: int
    kind: str
    owner: int = -1


class Instances:
    """Finds or makes the group of a node.

    Args:
        groups: All groups. New ones are added at the end.
    """

    def __init__(self, groups: list[Group]) -> None:
        self._groups = groups
        self._scopes: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._readers: dict[Key, set[Key]] = defaultdict(set)

    def add(self, parent: int, name: str, kind: str) -> int:
        """A new group."""
        self._groups.append(Group(name, parent, kind))
        return len(self._groups) - 1

    def path(self, group: int) -> list[Key]:
        """The groups around and the group itself, without the whole graph."""
        found: list[Key] = []
        while group > 0:
            found.append(group)
            group = self._groups[group].parent
        return found[::-1]

    def scope(self, parent: int, name: str, makers: Sequence[Sequence[Key]]) -> int:
        """The group of a scope for a node.

        Args:
            parent: The group around it.
            name: The name of the scope.
            makers: The paths of the nodes that make the inputs of the node.
        """
        known = self._scopes[parent, name]
        if known and not self._closes_circle(known[-1], parent, makers):
            return known[-1]
        count = len(known) + 1
        known.append(self.add(parent, name if count == 1 else f"{name} ({count})", "scope"))
        return known[-1]

    def connect(self, makers: Sequence[Sequence[Key]], reader: Sequence[Key]) -> None:
        """Notes that a node reads others, at the level at which their paths part."""
        for maker in makers:
            level = _parting(maker, reader)
            self._readers[maker[level]].add(reader[level])

    def _closes_circle(self, group: int, parent: int, makers: Sequence[Sequence[Key]]) -> bool:
        """Whether a node that makes an input needs this group, without being in it."""
        depth = len(self.path(parent))
        outer = self.path(parent)
        beside = {
            path[depth] for path in makers if list(path[:depth]) == outer and path[depth] != group
        }
        return bool(beside) and self._reaches(group, beside)

    def _reaches(self, start: Key, goals: set[Key]) -> bool:
        seen: set[Key] = {start}
        pending: list[Key] = [start]
        while pending:
            for reader in self._readers[pending.pop()]:
                if reader in goals or len(seen) > _SEARCHED:
                    return True
                if reader not in seen:
                    seen.add(reader)
                    pending.append(reader)
        return False


def _parting(one: Sequence[Key], two: Sequence[Key]) -> int:
    """The first place at which two paths differ."""
    level = 0
    while one[level] == two[level]:
        level += 1
    return level
