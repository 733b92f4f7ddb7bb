"""Whole numbers from shares, against decimal arithmetic."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plfl.base.rounding import decimal, round_share, snap_to_whole


@given(st.integers(0, 2000), st.integers(0, 1000))
def test_a_share_is_rounded_half_up_as_on_paper(count: int, thousandths: int) -> None:
    on_paper = Decimal(count) * Decimal(thousandths) / 1000
    expected = int(on_paper.quantize(Decimal(1), ROUND_HALF_UP))
    assert round_share(count, thousandths / 1000) == expected


def test_a_float_is_the_decimal_that_it_prints_as() -> None:
    assert decimal(0.58) * decimal(50.0) == 29
    assert decimal(np.float64(0.1)) == Fraction(1, 10)
    assert decimal(1e-9) == Fraction(1, 10**9)


@given(st.integers(1, 10**12), st.integers(1, 10**4))
def test_round_off_is_no_difference(number: int, parts: int) -> None:
    assert snap_to_whole(number / parts * parts) == number
    assert snap_to_whole(sum([0.1] * 10)) == 1
    assert snap_to_whole(number + 0.25) == number + 0.25 or number > 2.5e8
