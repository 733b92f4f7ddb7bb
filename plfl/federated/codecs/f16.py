"""Half precision: IEEE 754 binary16, rounded to the nearest, ties to even. A number of normal size
has a relative error of at most 2⁻¹¹."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.interfaces.codec import Blocks, Codec, Field, Random, Rows


class Half(Codec):
    """Two bytes for each number, of size at most 65,504."""

    name = "f16"
    contraction = 1 - 2**-22
    largest = 65504

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return (Field(blocks.width, "<f2"),)

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        return [rows.astype(np.float16)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        return fields[0].astype(np.float32)
