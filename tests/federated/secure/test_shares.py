"""Shares recover a secret, and fewer than the threshold say nothing of it."""

import os
from itertools import combinations, product

import pytest

from plfl.federated.secure.shares import PRIME, recover, split, values


def test_the_shares_of_the_known_example() -> None:
    """https://en.wikipedia.org/wiki/Shamir's_secret_sharing: 1234 + 166 x + 94 x² modulo 1613."""
    shares = values(1234, [166, 94], 6, prime=1613)
    assert shares == [1494, 329, 965, 176, 1188, 775]
    for places in combinations(range(1, 7), 3):
        assert recover({x: shares[x - 1] for x in places}, prime=1613) == 1234


@pytest.mark.parametrize("secret", [0, 1, 2**256 - 1])
def test_any_shares_of_the_threshold_recover_the_secret(secret: int) -> None:
    shares = split(secret, 9, 5, os.urandom)
    for places in combinations(range(1, 10), 5):
        assert recover({x: shares[x - 1] for x in places}) == secret
    assert recover({x: shares[x - 1] for x in (1, 3, 5, 8)}) != secret


def test_fewer_shares_are_equally_likely_for_all_secrets() -> None:
    """Over all polynomials modulo 7, with threshold 3: any two shares."""
    for places in combinations(range(4), 2):
        seen = {
            secret: sorted(
                [values(secret, list(drawn), 4, prime=7)[place] for place in places]
                for drawn in product(range(7), repeat=2)
            )
            for secret in range(7)
        }
        assert all(view == seen[0] for view in seen.values())


def test_the_prime_is_the_first_above_all_keys() -> None:
    def is_probable_prime(number: int) -> bool:
        odd, twos = number - 1, 0
        while odd % 2 == 0:
            odd, twos = odd // 2, twos + 1
        for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
            power = pow(base, odd, number)
            squares = [pow(power, 2**k, number) for k in range(twos)]
            if power != 1 and number - 1 not in squares:
                return False
        return True

    assert is_probable_prime(PRIME)
    assert not any(is_probable_prime(number) for number in range(2**256 + 1, PRIME, 2))
