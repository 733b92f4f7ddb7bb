"""The sign of each number, and for each block the mean magnitude as its scale.

Source: Frank Seide, Hao Fu, Jasha Droppo, Gang Li and Dong Yu, "1-bit stochastic gradient descent
and its application to data-parallel distributed training of speech DNNs", Interspeech 2014; in
this form Sai Praneeth Karimireddy, Quentin Rebjock, Sebastian Stich and Martin Jaggi, "Error
Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019,
https://arxiv.org/abs/1901.09847.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.interfaces.codec import Blocks, Codec, Field, Random, Rows


class Sign(Codec):
    """One bit for each number; zero counts as positive."""

    name = "sign"
    contraction = 2 / math.pi

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return Field(len(blocks.lengths)), Field(blocks.width, "code", levels=2)

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        sums = np.add.reduceat(np.abs(rows).astype(np.float64), blocks.starts, axis=1)
        return [(sums / blocks.lengths).astype(np.float32), rows >= 0]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        scales, positive = fields
        spread = blocks.spread(scales)
        return np.where(positive > 0, spread, -spread)
