"""Whole numbers from shares, against decimal arithmetic."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.base.rounding import decimal, drawn_of, share_of, whole
from plfl.federated.participation import Selection


@given(st.integers(0, 2000), st.integers(0, 1000))
def test_a_share_is_rounded_half_up_as_on_paper(count: int, thousandths: int) -> None:
    on_paper = Decimal(count) * Decimal(thousandths) / 1000
    expected = int(on_paper.quantize(Decimal(1), ROUND_HALF_UP))
    assert share_of(count, thousandths / 1000) == expected


@pytest.mark.parametrize(
    ("clients", "share", "expected"),
    [(5, 0.5, 3), (10, 0.25, 3), (12, 0.25, 3), (100, 0.145, 15), (3, 0.1, 1), (7, 1.0, 7)],
)
def test_as_many_take_part(clients: int, share: float, expected: int) -> None:
    names = [f"client {i}" for i in range(clients)]
    assert drawn_of(clients, share) == expected
    assert len(Selection(0, names, share).draw(1)) == expected


def test_a_float_is_the_decimal_that_it_prints_as() -> None:
    assert decimal(0.58) * decimal(50.0) == 29
    assert decimal(np.float64(0.1)) == Fraction(1, 10)
    assert decimal(1e-9) == Fraction(1, 10**9)


@given(st.integers(1, 10**12), st.integers(1, 10**4))
def test_round_off_is_no_difference(number: int, parts: int) -> None:
    assert whole(number / parts * parts) == number
    assert whole(sum([0.1] * 10)) == 1
    assert whole(number + 0.25) == number + 0.25 or number > 2.5e8
