"""Columns of a row, by the names of parameters and of their groups."""

import pytest

from plfl.layout import ParameterLayout

SHAPES = {"body.weight": (2, 3), "body.bias": (2,), "head.0.weight": (1, 2), "head.2.bias": (1,)}
LAYOUT = ParameterLayout(SHAPES, head=("head.*",))


@pytest.mark.parametrize(
    ("patterns", "columns"),
    [
        (["*"], range(11)),
        (["body"], range(8)),
        (["head"], range(8, 11)),
        (["body", "head"], range(11)),
        (["*.bias"], [6, 7, 10]),
        (["head.0.*", "body.bias"], [6, 7, 8, 9]),
        (["other"], []),
        ([], []),
    ],
)
def test_patterns_and_groups(patterns: list[str], columns: list[int]) -> None:
    assert LAYOUT.mask(patterns).nonzero()[0].tolist() == list(columns)
