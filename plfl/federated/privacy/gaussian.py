"""ε and δ of Gaussian noise, exactly.

T rounds with noise z, in each of which every client takes part, are together exactly as private as
telling N(0, 1) from N(μ, 1) by one sample, where μ = √T / z: Jinshuo Dong, Aaron Roth and Weijie J.
Su, "Gaussian Differential Privacy", JRSS B 84 (2022), https://arxiv.org/abs/1905.02383, corollary
2.13.
"""

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest δ for which N(0, 1) and N(μ, 1) are (ε, δ)-indistinguishable."""
    shift = epsilon / mu
    return float(ndtr(mu / 2 - shift) - math.exp(epsilon + log_ndtr(-mu / 2 - shift)))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε at this δ; infinite without noise (μ = ∞)."""
    if mu == math.inf:
        return math.inf
    if mu == 0 or delta_of(0, mu) <= delta:
        return 0.0
    high = 1.0
    while delta_of(high, mu) > delta:
        high *= 2
    return float(brentq(lambda epsilon: delta_of(epsilon, mu) - delta, 0, high, xtol=1e-12))
