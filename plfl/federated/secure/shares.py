"""Secrets that some of many shares recover, while fewer tell nothing.

Source: Adi Shamir, "How to share a secret", Communications of the ACM 22 (1979). A secret is the
value at 0 of a random polynomial of degree t − 1 over the integers modulo a prime; a share is its
value elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

PRIME = 2**256 + 297
"""The least prime above all secrets of 32 bytes."""
SHARE_BYTES = 33
"""Bytes of a share."""


def split(
    secret: int, count: int, threshold: int, draw: Callable[[int], bytes], prime: int = PRIME
) -> list[int]:
    """The shares of a `secret` below `prime`, at 1, 2, …, `count`; any `threshold` of them recover
    it. `draw` gives that many random bytes."""
    # 16 more bytes than a number has make all numbers below the prime equally likely.
    size = (prime.bit_length() + 7) // 8 + 16
    data = draw(size * (threshold - 1))
    chunks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    coefficients = [int.from_bytes(chunk, "little") % prime for chunk in chunks]
    return values(secret, coefficients, count, prime)


def values(secret: int, coefficients: list[int], count: int, prime: int = PRIME) -> list[int]:
    """The values at 1, 2, …, `count` of a polynomial with these coefficients of x, x², …."""
    shares = []
    for x in range(1, count + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value + coefficient) * x % prime
        shares.append((value + secret) % prime)
    return shares


def recover(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """The secret of at least `threshold` shares, by where they were taken."""
    secret = 0
    for x, share in shares.items():
        numerator, denominator = 1, 1
        for place in shares:
            if place != x:
                numerator = numerator * place % prime
                denominator = denominator * (place - x) % prime
        secret += share * numerator * pow(denominator, -1, prime)
    return secret % prime
