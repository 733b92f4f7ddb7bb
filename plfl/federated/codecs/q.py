"""QSGD with the largest magnitude as scale: each number becomes one of 2s + 1 equidistant levels
between −a and a. A random number chooses between the two nearest levels, such that the mean is
exact.

Source: Dan Alistarh, Demjan Grubic, Jerry Li, Ryota Tomioka and Milan Vojnovic, "QSGD:
Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS 2017,
https://arxiv.org/abs/1610.02132.

a = max |v| of a block, s = 2^(b−1) − 1, w = s |v| / a:  q = sign(v) (⌊w⌋ + [U < w − ⌊w⌋]), U
uniform;  decoded: a q / s, with the variance (a/s)² p (1 − p), p = w − ⌊w⌋
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plfl.interfaces.codec import Blocks, Codec, Field, Random, Rows

_ERRORS = {8: 0.000145, 4: 0.048187, 3: 0.257416, 2: 1.986806}
"""E‖C(v) − v‖²/‖v‖² of 2,500 normal numbers, by bits."""


class Quantised(Codec):
    """b bits for each number and a float for each block's scale."""

    name = "q"
    is_unbiased = True
    has_codes = True

    bits: Literal[2, 3, 4, 8]
    """Bits b of a number."""

    @property
    def contraction(self) -> float | None:  # type: ignore[override]
        return 1 - _ERRORS[self.bits] if _ERRORS[self.bits] < 1 else None

    @property
    def steps(self) -> int:
        """Levels s above zero."""
        return (1 << self.bits - 1) - 1

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        codes = Field(blocks.width, "code", levels=2 * self.steps + 1)
        return Field(len(blocks.lengths)), codes

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        w = np.abs(rows)
        scales = np.maximum.reduceat(w, blocks.starts, axis=1)
        w /= blocks.spread(np.where(scales > 0, scales, np.float32(1)))
        w *= np.float32(self.steps)
        level = w.astype(np.uint8)  # rounded downwards
        w -= level
        for levels, p, generator in zip(level, w, random, strict=True):
            levels += generator.random(blocks.width, dtype=np.float32) < p
        return [scales, self.steps + level - 2 * level * (rows < 0)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        scales, codes = fields
        rows = codes.astype(np.float32)
        rows -= np.float32(self.steps)
        rows *= blocks.spread(scales)
        rows /= np.float32(self.steps)
        return rows
