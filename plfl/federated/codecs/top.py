"""The k largest numbers of a row, and where they are: a list of their indices or a bit for each of
the d numbers, whichever is shorter. Of equally large numbers, the first ones are sent.

Source: Sebastian U. Stich, Jean-Baptiste Cordonnier and Martin Jaggi, "Sparsified SGD with Memory",
NeurIPS 2018, https://arxiv.org/abs/1809.07599.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.codecs import Blocks, CodecError, Field, Random, Rows, Sparse


class Top(Sparse):
    """The largest numbers as floats."""

    name = "top"

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return self._index(blocks), Field(self.kept(blocks))

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        order = np.argsort(-np.abs(rows), axis=1, kind="stable")
        at = np.sort(order[:, : self.kept(blocks)], axis=1)
        where = at
        if self._index(blocks).kind == "code":
            where = np.zeros(rows.shape, dtype=np.int64)
            np.put_along_axis(where, at, 1, axis=1)
        return [where, np.take_along_axis(rows, at, axis=1)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        where, values = fields
        rows = np.zeros((len(values), blocks.width), dtype=np.float32)
        if self._index(blocks).kind == "code":
            if (where.sum(1, dtype=np.int64) != values.shape[1]).any():
                raise CodecError("the coded update has another number of places than of values")
            rows[where > 0] = values.ravel()
            return rows
        at = where.astype(np.int64)
        if (np.diff(at, axis=1) <= 0).any() or at.min() < 0 or at.max() >= blocks.width:
            raise CodecError("the coded update has an index that is out of range or out of order")
        np.put_along_axis(rows, at, values, axis=1)
        return rows

    def _index(self, blocks: Blocks) -> Field:
        """Where the numbers are, in the shorter form."""
        listed = Field(self.kept(blocks), "<u2" if blocks.width <= 1 << 16 else "<i4")
        mask = Field(blocks.width, "code", levels=2)
        return mask if mask.size < listed.size else listed
