"""A function's own names for its inputs and outputs, in place of those that JAX makes up."""

from __future__ import annotations

from collections.abc import Sequence


def own_results(names: Sequence[str], inputs: Sequence[str]) -> list[str]:
    """The names of results: their keys in a dict or named tuple, without "result" in front.

    Where one has no such key, or the name of an input, all keep "result/" in front.
    """
    own = [name.removeprefix("result/") for name in names]
    are_keys = all(
        name != key and (head := key.split("/")[0]) and not head.isdigit()
        for name, key in zip(names, own, strict=True)
    )
    return own if are_keys and not set(own) & set(inputs) else list(names)


def own_inputs(names: Sequence[str], parameters: Sequence[str]) -> list[str]:
    """The names of the inputs of a function that passes on `*args`, with the names of the
    parameters that take them.

    Args:
        names: The names of its inputs. Those of `*args` are "args/0" and so on.
        parameters: Names of all parameters, the function's own ones first.
    """
    taken = {name.split("/")[0] for name in names}
    free = [name for name in parameters if name not in taken]

    def own(name: str) -> str:
        head, _, rest = name.partition("/")
        place, _, tail = rest.partition("/")
        if head != "args" or not place.isdigit() or int(place) >= len(free):
            return name
        return "/".join(part for part in (free[int(place)], tail) if part)

    return list(names) if "args" in parameters else list(map(own, names))
