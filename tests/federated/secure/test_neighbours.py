"""Every client has k neighbours, and the bounds of what could go wrong are bounds."""

from itertools import combinations

import numpy as np
import pytest

from plfl.federated.secure.neighbours import (
    COLLUDING,
    FEWEST_NEIGHBOURS,
    SAFE,
    degree_of,
    draw_neighbours,
    probability_apart,
    probability_exposed,
    threshold_of,
)


@pytest.mark.parametrize(("count", "degree"), [(3, 2), (6, 5), (7, 4), (30, 20), (40, 39)])
def test_neighbours_are_mutual_and_equally_many(count: int, degree: int) -> None:
    neighbours = draw_neighbours(count, degree, np.random.default_rng(0))
    assert neighbours.shape == (count, degree)
    pairs = {(i, j) for i, row in enumerate(neighbours.tolist()) for j in row}
    assert len(pairs) == count * degree
    assert all(i != j and (j, i) in pairs for i, j in pairs)


def are_apart(
    neighbours: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", gone: set[int]
) -> bool:
    left = {*range(len(neighbours))} - gone
    reached, new = set[int](), {min(left)}
    while new:
        reached |= new
        new = {int(j) for i in new for j in neighbours[i]} & left - reached
    return reached != left


@pytest.mark.parametrize(("count", "degree", "missing"), [(9, 2, 4), (10, 4, 5), (11, 4, 4)])
def test_the_probability_that_the_others_fall_apart(count: int, degree: int, missing: int) -> None:
    neighbours = draw_neighbours(count, degree, np.random.default_rng(0))
    cases = [*combinations(range(count), missing)]
    true = np.mean([are_apart(neighbours, {*gone}) for gone in cases])
    assert 0 < true <= probability_apart(count, degree, missing) * (1 + 1e-9)
    assert (
        probability_apart(count, degree, degree - 1)
        == 0
        == probability_apart(count, count - 1, missing)
    )


def test_the_probability_that_a_key_is_known() -> None:
    count, degree, colluding = 12, 4, 5
    neighbours = draw_neighbours(count, degree, np.random.default_rng(0))
    least = threshold_of(degree)
    true = np.mean(
        [
            any(len({*row} & {*told}) >= least for row in neighbours.tolist())
            for told in combinations(range(count), colluding)
        ]
    )
    assert 0 < true <= probability_exposed(count, degree, colluding)


@pytest.mark.parametrize("count", [5, 21, 22, 132, 1000, 10_000])
def test_neighbours_keep_the_promise_and_grow_slowly(count: int) -> None:
    for has_shares in (False, True):
        degree = degree_of(count, has_shares)
        assert (
            degree == count - 1 if count <= FEWEST_NEIGHBOURS + 1 else degree >= FEWEST_NEIGHBOURS
        )
        assert probability_apart(count, degree, int(COLLUDING * count)) <= SAFE
        if has_shares:
            assert (
                probability_exposed(count, degree, int(COLLUDING * count)) <= SAFE
                or degree == count - 1
            )
    assert degree_of(10_000, has_shares=True) < 80
