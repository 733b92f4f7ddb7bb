"""k numbers of a row in places that both ends draw from the same stream, so that no index crosses.
Without a memory they are multiplied by d/k, which makes their mean exact; with one, a contraction
is needed instead, and they stay as they are.

Source: Sebastian U. Stich, Jean-Baptiste Cordonnier and Martin Jaggi, "Sparsified SGD with Memory",
NeurIPS 2018, https://arxiv.org/abs/1809.07599.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Bounded

from plfl.federated.codecs import Blocks, Codec, Field, Random, Rows, kept_of


class Rand(Codec):
    """Numbers in random places."""

    name = "rand"
    unbiased = True

    share: float = Bounded(gt=0, lt=1)
    """Share k/d of the numbers."""

    @property
    def contraction(self) -> float:
        return self.share

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return (Field(kept_of(self.share, blocks)),)

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
        kept = kept_of(self.share, blocks)
        return np.stack([one.permutation(blocks.width)[:kept] for one in random])
