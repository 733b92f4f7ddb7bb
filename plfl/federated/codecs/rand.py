"""k numbers of a row in places that both ends draw from the same stream, so that no index crosses.
Without a memory they are multiplied by d/k, which makes their mean exact; with one, a contraction
is needed instead, and they stay as they are.

Source: Sebastian U. Stich, Jean-Baptiste Cordonnier and Martin Jaggi, "Sparsified SGD with Memory",
NeurIPS 2018, https://arxiv.org/abs/1809.07599.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.codecs import Blocks, Field, Random, Rows, Sparse


class Rand(Sparse):
    """Numbers in random places."""

    name = "rand"
    unbiased = True

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return (Field(self.kept(blocks)),)

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
        return np.stack([one.permutation(blocks.width)[: self.kept(blocks)] for one in random])
