"""k numbers of a row, at places that both ends draw from the same random stream, so that no index
is sent. Without a memory the numbers are multiplied by d/k, which makes their mean exact. With a
memory they stay as they are, because error feedback needs a contraction.

Source: Sebastian U. Stich, Jean-Baptiste Cordonnier and Martin Jaggi, "Sparsified SGD with Memory",
NeurIPS 2018, https://arxiv.org/abs/1809.07599.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.codecs import Sparse
from plfl.interfaces.codec import Blocks, Field, Random, Rows


class Rand(Sparse):
    """Numbers at random places."""

    name = "rand"
    is_unbiased = True

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return (Field(self.entries_kept(blocks)),)

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        return [np.take_along_axis(rows, self._places(blocks, random), axis=1)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        (values,) = fields
        rows = np.zeros((len(values), blocks.width), dtype=np.float32)
        factor = np.float32(1 if remembers else blocks.width / values.shape[1])
        np.put_along_axis(rows, self._places(blocks, random), values * factor, axis=1)
        return rows

    def _places(self, blocks: Blocks, random: Random) -> NDArray[np.int64]:
        return np.stack(
            [
                generator.permutation(blocks.width)[: self.entries_kept(blocks)]
                for generator in random
            ]
        )
