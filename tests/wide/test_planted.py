"""A bisection names faults that are planted in translated models.

`python -m tools.model_mutation --bisect` does it for 10 programs.
"""

from __future__ import annotations

import pytest

from tools.model_mutation.bisected import tried

pytestmark = pytest.mark.wide


@pytest.mark.parametrize("name", ["switch", "lstm", "small_sorting", "small_complex_numbers"])
def test_the_changed_node_is_named(name: str) -> None:
    outcomes = list(tried(name, 2, seed=1))
    assert len(outcomes) == 2
    assert all(outcome.is_named for outcome in outcomes), "\n".join(map(str, outcomes))
