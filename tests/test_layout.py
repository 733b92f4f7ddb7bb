"""Columns of a row, by the names of parameters and of their groups."""

import pytest
import torch

from plfl.layout import ParameterLayout

SHAPES = {"body.weight": (2, 3), "body.bias": (2,), "head.0.weight": (1, 2), "head.2.bias": (1,)}
LAYOUT = ParameterLayout(SHAPES, head=("head.*",))


def test_views_are_slices_in_order() -> None:
    rows = torch.arange(22.0).view(2, 11)
    views = LAYOUT.views(rows)
    assert LAYOUT.width == 11
    assert [tuple(view.shape) for view in views.values()] == [(2, *s) for s in SHAPES.values()]
    assert torch.equal(torch.cat([view.flatten(1) for view in views.values()], 1), rows)


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


def test_the_last_layer_has_all_parameters_of_its_part() -> None:
    shapes = {"a.weight": (1,), "b.1.weight": (1,), "b.1.bias": (1,)}
    assert ParameterLayout(shapes).matching(ParameterLayout(shapes).last) == [*shapes][1:]
    assert ParameterLayout({"a.weight": (1,), "level": (1,)}).last == "level"


def test_without_a_head_all_is_body() -> None:
    plain = ParameterLayout(SHAPES)
    assert plain.matching("body") == plain.names
    assert plain.matching("head") == []
