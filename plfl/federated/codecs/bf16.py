"""Bfloat16: the upper half of a float32, rounded to the nearest, ties to even. The relative error
is at most 2⁻⁸."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.interfaces.codec import LARGEST_SENT, Blocks, Codec, CodecError, Field, Random, Rows


class BFloat16(Codec):
    """Two bytes for each number, with the range of a float32."""

    name = "bf16"
    contraction = 1 - 2**-16

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return (Field(blocks.width, "<u2"),)

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        bits = np.ascontiguousarray(rows).view(np.uint32)
        return [((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        rows: Rows = (fields[0].astype(np.uint32) << 16).view(np.float32)
        if not (np.abs(rows) <= 2 * LARGEST_SENT).all():
            raise CodecError("the coded update has numbers that are implausible, or not finite")
        return rows
