"""Whole numbers from fractions, without the round-off of binary numbers.

0.58 · 50 is 29, though the product of the two floats is less; half of 5 clients is 3, where Python
rounds 2.5 to the even 2.
"""

import math
from fractions import Fraction


def decimal(value: float) -> Fraction:
    """A float as the exact fraction that it was written as: 0.1 is 1/10."""
    return Fraction(repr(float(value)))


def round_share(count: int, share: float) -> int:
    """A `share` of `count` things, rounded to the nearest whole number, halves up."""
    return math.floor(decimal(share) * count + Fraction(1, 2))


def count_participants(client_count: int, share: float) -> int:
    """The number of participants of a round: a `share` of `client_count`, rounded, at least one."""
    return max(1, round_share(client_count, share))


def snap_to_whole(value: float) -> float:
    """The nearest whole number if `value` is it but for round-off (10⁻⁹ of it), else `value`."""
    nearest = float(round(value))
    return nearest if math.isclose(value, nearest, rel_tol=1e-9, abs_tol=1e-9) else value
